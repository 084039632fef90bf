use eindecomp::ein;

ein! {
    fn split<dim B, dim D, dim H>(x: f32[B, D]) -> f32[B, H, D / H] {
        let y[b, h in H, e] = x[b, (h, e)];
        y
    }
}

fn main() {}
