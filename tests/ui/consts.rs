use eindecomp::ein;

const WIDTH: usize = 10;
const HEADS: usize = 4;
const SCALE: f32 = 1.0;

ein! {
    fn split<dim B>(x: f32[B, WIDTH]) -> f32[B, HEADS, WIDTH / HEADS] {
        let y[b, h in HEADS, e] = x[b, (h, e)];
        y
    }

    fn typo(x: f32[WIDHT]) -> f32[SCALE] {
        let y[i in SCALE] = sum[j] x[j];
        y
    }
}

fn main() {}
