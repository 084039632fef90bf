use eindecomp::ein;

const WIDTH: usize = 10;
const HEADS: usize = 4;
const OTHER: usize = 12;
const SCALE: f32 = 1.0;

ein! {
    fn split<dim B>(x: f32[B, WIDTH]) -> f32[B, HEADS, WIDTH / HEADS] {
        let y[b, h in HEADS, e] = x[b, (h, e)];
        y
    }

    fn product<dim M, dim N>(a: f32[M, WIDTH], b: f32[OTHER, N]) -> f32[M, N] {
        let c[m, n] = sum[k] a[m, k] * b[k, n];
        c
    }

    fn caller<dim B>(x: f32[B, OTHER]) -> f32[B, HEADS, WIDTH / HEADS] {
        let y = split(x);
        y
    }

    fn shifted(x: f32[WIDTH]) -> f32[HEADS] {
        let y[i in HEADS] = x[i + OTHER];
        y
    }

    fn typo(x: f32[WIDHT]) -> f32[SCALE] {
        let y[i in SCALE] = sum[j] x[j];
        y
    }
}

fn main() {}
