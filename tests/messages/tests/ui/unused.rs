#![deny(unused_variables, deprecated)]

use eindecomp::ein;

ein! {
    fn unused<dim N>(x: f32[N], spare: f32[N]) -> f32[N] {
        let y[n] = 2.0 * x[n];
        let z[n] = 3.0 * x[n];
        y
    }

    fn bytes<dim N>(x: u8[N]) -> u8[] {
        let y[] = sum[n] x[n];
        y
    }
}

fn main() {}
