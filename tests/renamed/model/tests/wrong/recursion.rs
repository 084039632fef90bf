//! Blocks that call each other from two programs.
mod a {
    ed::ein! {
        pub fn ping<dim N>(x: f32[N]) -> f32[N] {
            let y: f32[N] = super::b::pong(x);
            y
        }
    }
}
mod b {
    ed::ein! {
        pub fn pong<dim N>(x: f32[N]) -> f32[N] {
            let y: f32[N] = super::a::ping(x);
            y
        }
    }
}

fn main() {}
