use eindecomp::ein;

ein! {
    fn shift<dim Y>(img: f32[Y]) -> f32[Y] {
        let y[i in Y] = img[i - 1];
        y
    }
}

fn main() {}
