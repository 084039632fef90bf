//! One wrong program per code.

use super::errors;

#[test]
fn ein0001() {
    assert_eq!(errors("fn f(a: f32[4, 512], b: f32[256, 3]) -> f32[4, 3] { let c[m, n] = sum[k] a[m, k] * b[k, n]; c }"), "");
}
