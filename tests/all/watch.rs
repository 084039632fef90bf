//! Watched tensors are what the program computes, at every plan.

use eindecomp::{Cluster, Compiled, Error, Session, ein};
use ndarray::{Array1, Array2};

ein! {
    fn halved<dim N>(x: f32[N, N]) -> f32[N, N] {
        let half[i, j] = 0.5 * x[i, j];
        let y[i, j] = half[i, j] + half[j, i];
        y
    }

    /// Twice `half` of two axes, once of one; `y` in the calls, and as a result.
    pub fn mixed<dim N>(x: f32[N, N]) -> (f32[N, N], f32[N]) {
        let mut h = x;
        for i in 0..2 { h = halved(h); }
        let first[i] = 0.5 * h[i, 0];
        let y[i, j] = h[i, j] * first[j];
        (y, first)
    }
}

fn numbers(n: usize) -> Array2<f32> {
    Array2::from_shape_fn((n, n), |(i, j)| (2 * i + 3 * j) as f32)
}

fn session(devices: u32) -> Session {
    let cluster = Cluster::cpus(devices);
    Session::builder().cluster(cluster).build().unwrap()
}

fn of(program: &Compiled<mixed::Model>, name: &str) -> Vec<(String, Array2<f32>)> {
    program.watched(name).unwrap()
}

fn owned<const N: usize>(all: [(&str, &Array2<f32>); N]) -> Vec<(String, Array2<f32>)> {
    all.map(|(path, tensor)| (path.to_string(), tensor.clone()))
        .into()
}

#[test]
fn watched_tensors_are_those_of_the_last_run() {
    for devices in [1, 2, 3, 4, 8] {
        let plain = session(devices);
        let watching = plain.watch("half").watch("x").watch("y");
        let watching = watching.watch("h.y").watch("1.h.half").watch("half");
        let at = |n| mixed::Dims { n };
        let mut wanted = plain.compile(mixed::graph(), at(4)).unwrap();
        let mut watched = watching.compile(mixed::graph(), at(4)).unwrap();
        assert!(watched.watched::<f32, 2>("half").unwrap().is_empty());
        // other dims than those compiled for, then results that are used again
        for n in [4, 6, 4] {
            let x = numbers(n);
            let wanted = wanted.run(mixed::Inputs { x: x.clone() }).unwrap();
            let mut results = watched.run(mixed::Inputs { x: x.clone() }).unwrap();
            for _ in 0..2 {
                assert_eq!((&results.y, &results.first), (&wanted.y, &wanted.first));
                let half = 0.5 * &x;
                let sum = &half + &half.t();
                let halves = [("0.h.half", &half), ("1.h.half", &(0.5 * &sum))];
                let ys = [("0.h.y", &sum), ("1.h.y", &sum), ("y", &wanted.y)];
                assert_eq!(of(&watched, "half"), owned(halves));
                assert_eq!(of(&watched, "1.h.half"), owned([halves[1]]));
                assert_eq!(of(&watched, "x"), owned([("x", &x)]));
                assert_eq!(of(&watched, "y"), owned(ys));
                assert_eq!(of(&watched, "h.y"), owned([ys[0], ys[1]]));
                let inputs = mixed::Inputs { x: x.clone() };
                watched.run_into(inputs, &mut results).unwrap();
            }
        }
    }
}

#[test]
fn names_that_are_not_watched_are_told() {
    let at = mixed::Dims { n: 2 };
    let Err(error) = session(1).watch("haf").compile(mixed::graph(), at) else {
        panic!("no tensor has that name");
    };
    assert_eq!(
        error.to_string(),
        "tensor `haf` is missing; did you mean `half`?"
    );
    let mut program = session(2)
        .watch("first")
        .compile(mixed::graph(), at)
        .unwrap();
    program.run(mixed::Inputs { x: numbers(2) }).unwrap();
    let told = |error: Result<Vec<(String, Array1<f32>)>, Error>| error.unwrap_err().to_string();
    let near = "tensor `frst` is missing; did you mean `first`?";
    assert_eq!(told(program.watched("frst")), near);
    let rank = program.watched::<f32, 2>("first").unwrap_err().to_string();
    assert!(rank.contains("`first` is f32 with 1 axes"), "{rank}");
}

#[test]
fn tensors_know_where_their_statements_stand() {
    let graph = mixed::graph().into_graph().unwrap();
    let line = |text| {
        let lines = include_str!("watch.rs").lines();
        let at = lines.take_while(|line| !line.contains(text)).count() + 1;
        format!("{}:{at}", file!())
    };
    let place = |name: &str| graph.place(name).map(|place| place.to_string());
    for (name, text) in [
        ("0.h.half", "let half[i, j]"),
        ("1.h.y", "let y[i, j] = half"),
        ("first", "let first[i]"),
        ("y", "let y[i, j] = h[i, j]"),
    ] {
        assert_eq!(place(name), Some(line(text)), "{name}");
    }
    assert_eq!(place("x"), None);
    let at = mixed::Dims { n: 6 };
    for devices in [1, 3] {
        let mut program = session(devices).compile(mixed::graph(), at).unwrap();
        let profile = program.profile(mixed::Inputs { x: numbers(6) }).unwrap();
        let all = &profile.statements;
        assert!(all.iter().all(|s| s.source == place(&s.name)));
        assert!(
            all.iter().any(|s| s.source == Some(line("let first[i]"))),
            "{profile}"
        );
        assert!(
            profile.to_string().contains(&line("let first[i]")),
            "{profile}"
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        profile.write_timeline(file.path()).unwrap();
        let told = std::fs::read_to_string(file.path()).unwrap();
        assert!(told.contains(&format!("\"source\":\"{}\"", line("let first[i]"))));
    }
}
