//! Blocks that are too large with all that they call of other programs are refused before any of
//! it is built.

use eindecomp::ein;

/// Programs of which each calls the one before twice.
macro_rules! doubling {
    ($first:ident) => {};
    ($before:ident $next:ident $($rest:ident)*) => {
        mod $next {
            use super::*;

            ein! {
                pub fn twice<dim N>(x: f32[N]) -> f32[N] {
                    let y: f32[N] = super::$before::twice(x);
                    let z: f32[N] = super::$before::twice(y);
                    z
                }
            }
        }
        doubling!($next $($rest)*);
    };
}

mod p0 {
    use super::*;

    ein! {
        pub fn twice<dim N>(x: f32[N]) -> f32[N] {
            let y[n] = 2.0 * x[n];
            y
        }
    }
}

doubling!(p0 p1 p2 p3 p4 p5 p6 p7 p8 p9 p10 p11 p12 p13 p14 p15 p16 p17 p18 p19 p20 p21 p22 p23 p24);

#[test]
fn a_chain_of_programs_counts_before_it_is_built() {
    let small = p5::twice::graph().into_graph().unwrap();
    assert_eq!(small.ids().count(), 1 + 32);
    let error = p24::twice::graph().into_graph().unwrap_err();
    assert!(error.to_string().contains("statements"), "{error}");
}
