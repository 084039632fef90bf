//! Weights files that are missing, damaged, or of another model.

use std::fs;
use std::path::{Path, PathBuf};

use eindecomp::{Compiled, Error, WeightsFile, ein};
use ndarray::arr2;

use crate::bad_input::{dims, loaded, named, ramp, session, within};

ein! {
    /// Two weights.
    pub fn two<dim B>(x: f32[B, 2], #[weight] first: f32[2, 3], #[weight] second: f32[3, 2]) -> f32[B, 2] {
        let h[b, j] = sum[i] x[b, i] * first[i, j];
        let y[b, i] = sum[j] h[b, j] * second[j, i];
        y
    }
}

/// A safetensors file: header and as many bytes of data.
fn file(folder: &Path, header: &str, data: usize) -> PathBuf {
    let path = folder.join("weights.safetensors");
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend((0..data).map(|i| i as u8 % 60));
    fs::write(&path, bytes).unwrap();
    path
}

fn entry(name: &str, dtype: &str, shape: &str, from: usize, to: usize) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{from},{to}]}}"#)
}

fn good(folder: &Path) -> PathBuf {
    let first = entry("first", "F32", "[2,3]", 0, 24);
    let second = entry("second", "F32", "[3,2]", 24, 48);
    file(folder, &format!("{{{first},{second}}}"), 48)
}

fn compiled() -> Compiled<two::Model> {
    let dims = two::Dims { b: 2 };
    session(2).compile(two::graph(), dims).unwrap()
}

/// Read as arrays or box by box.
fn refused(path: &Path) -> Error {
    let error = match two::Weights::from_safetensors(path) {
        Ok(_) => panic!("{} should not be read", path.display()),
        Err(error) => error,
    };
    assert!(error.to_string().contains("weights"), "{error}");
    // which of several tensors is told first is chance
    let told = compiled()
        .load_file(path)
        .err()
        .expect("no weights")
        .to_string();
    assert_eq!(told.split('`').next(), error.to_string().split('`').next());
    error
}

#[test]
fn files_that_are_no_weights_are_refused() {
    within(|| {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        refused(&at.join("nothing"));
        refused(at);
        let path = good(at);
        assert!(two::Weights::from_safetensors(&path).is_ok());
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            refused(&path);
        }
        fs::write(&path, [&whole[..], b"more"].concat()).unwrap();
        refused(&path);
        for size in [u64::MAX, i64::MAX as u64, 1 << 40, 1 << 20, 0, 1] {
            fs::write(&path, [&size.to_le_bytes()[..], &whole[8..]].concat()).unwrap();
            refused(&path);
        }
        fs::write(
            &path,
            b"PK\x03\x04 this is another kind of file, long enough to have a header",
        )
        .unwrap();
        refused(&path);
    });
}

/// Every bit of the file: read or refused, nothing else.
#[test]
fn damaged_files_are_read_or_refused() {
    within(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = good(folder.path());
        let whole = fs::read(&path).unwrap();
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, bytes).unwrap();
            if let Err(error) = two::Weights::from_safetensors(&path) {
                drop(error.to_string());
            }
        }
    });
}

#[test]
fn headers_that_lie_are_refused() {
    within(|| {
        let folder = tempfile::tempdir().unwrap();
        let second = entry("second", "F32", "[3,2]", 24, 48);
        let max = usize::MAX;
        let lies = [
            entry("first", "F32", "[2,3]", 0, 48),
            entry("first", "F32", "[2,3]", 24, 0),
            entry("first", "F32", "[2,3]", 24, 48),
            entry("first", "F32", "[2,3]", max - 24, max),
            entry("first", "F32", "[2,4]", 0, 24),
            entry("first", "F32", &format!("[{max},{max}]"), 0, 24),
            entry("first", "F32", &format!("[{max},0]"), 0, 24),
            entry("first", "F32", "[-1,3]", 0, 24),
            entry("first", "Q7", "[2,3]", 0, 24),
            entry("first", "F32", &"[".repeat(100_000), 0, 24),
        ];
        for lie in lies {
            refused(&file(folder.path(), &format!("{{{lie},{second}}}"), 48));
        }
        refused(&file(folder.path(), &"[".repeat(1 << 20), 48));
    });
}

#[test]
fn all_that_is_wrong_is_listed() {
    within(|| {
        let folder = tempfile::tempdir().unwrap();
        let list = |header: &str| match refused(&file(folder.path(), header, 48)) {
            Error::Weights { errors, .. } => {
                errors.iter().map(Error::to_string).collect::<Vec<_>>()
            }
            other => panic!("{other}"),
        };
        let missing = list(&format!("{{{}}}", entry("secnd", "F32", "[12]", 0, 48)));
        let expected = [
            "tensor `first` is missing",
            "tensor `second` is missing; did you mean `secnd`?",
        ];
        assert_eq!(missing, expected);
        let (first, second) = (
            entry("first", "I32", "[2,3]", 0, 24),
            entry("second", "F32", "[6]", 24, 48),
        );
        let expected = [
            "tensor `first` is i32 with 2 axes, but f32 with 2 axes is needed",
            "tensor `second` is f32 with 1 axes, but f32 with 2 axes is needed",
        ];
        assert_eq!(list(&format!("{{{first},{second}}}")), expected);
        // element types that the language lacks
        let (first, second) = (
            entry("first", "I16", "[6]", 0, 12),
            entry("second", "U64", "[9]", 12, 84),
        );
        let path = file(folder.path(), &format!("{{{first},{second}}}"), 84);
        let Error::Weights { errors, .. } = refused(&path) else {
            panic!("all in one")
        };
        assert_eq!(errors.len(), 2);
        assert!(WeightsFile::open(&path).unwrap().tensor("first").is_err());
        // shapes are known to be wrong when they meet the graph: all of them again
        let (first, second) = (
            entry("first", "F32", "[1,6]", 0, 24),
            entry("second", "F32", "[2,3]", 24, 48),
        );
        let path = file(folder.path(), &format!("{{{first},{second}}}"), 48);
        let weights = two::Weights::from_safetensors(&path).unwrap();
        let read = compiled().load(weights).err();
        for error in [read, compiled().load_file(&path).err()] {
            match error {
                Some(Error::Shapes(errors)) => assert_eq!(errors.len(), 4, "{errors:?}"),
                other => panic!("{other:?}"),
            }
        }
    });
}

/// Weights in several files, as an index says; and what may be wrong with one.
#[test]
fn an_index_names_the_files() {
    within(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = good(folder.path());
        let x = named([("x", ramp(&[2, 2]))]);
        let graph = || two::graph().into_graph().unwrap();
        let run = |path: &Path| {
            let mut program = session(2)
                .compile_graph(graph(), dims(&[("B", 2)]))
                .unwrap();
            let file = WeightsFile::open(path)?;
            let stored = |name: &str| Ok((name.to_owned(), file.stored(name)?));
            let stored: Result<_, Error> = ["first", "second"].into_iter().map(stored).collect();
            program.load_stored(stored?)?;
            program.run(&x)
        };
        let whole = run(&path).unwrap();

        let part = |name: &str, header: String, data: std::ops::Range<usize>| {
            let part = file(folder.path(), &format!("{{{header}}}"), data.end);
            let mut bytes = fs::read(&part).unwrap();
            let head = bytes.len() - data.end;
            bytes.drain(head..head + data.start);
            fs::write(folder.path().join(name), bytes).unwrap();
        };
        part(
            "a.safetensors",
            entry("first", "F32", "[2,3]", 0, 24),
            0..24,
        );
        part(
            "b.safetensors",
            entry("second", "F32", "[3,2]", 0, 24),
            24..48,
        );
        let index = |text: &str| {
            let path = folder.path().join("model.safetensors.index.json");
            fs::write(&path, text).unwrap();
            path
        };
        let good = r#"{"metadata":{"total_size":48},"weight_map":{"first":"a.safetensors","second":"b.safetensors"}}"#;
        assert_eq!(run(&index(good)).unwrap(), whole);
        assert!(two::Weights::from_safetensors(index(good)).is_ok());
        for (text, said) in [
            ("{", "EOF"),
            (
                r#"{"weight_map":{"first":"../a.safetensors"}}"#,
                "is no file beside the index",
            ),
            (
                r#"{"weight_map":{"first":"/etc/passwd"}}"#,
                "is no file beside the index",
            ),
            (
                r#"{"weight_map":{"first":""}}"#,
                "is no file beside the index",
            ),
            (
                r#"{"weight_map":{"first":"b.safetensors"}}"#,
                "which has no such tensor",
            ),
            (
                r#"{"weight_map":{"first":"c.safetensors"}}"#,
                "c.safetensors",
            ),
            (r#"{"weight_map":{"first":"a.safetensors"}}"#, "`second`"),
        ] {
            let error = run(&index(text)).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    });
}

/// A file that changes under a program: its weights are lost, and are there when they are loaded again.
#[test]
fn files_that_shrink_are_told() {
    within(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = good(folder.path());
        let x = named([("x", ramp(&[2, 2]))]);
        let graph = || two::graph().into_graph().unwrap();
        let program = |b| {
            session(2)
                .compile_graph(graph(), dims(&[("B", b)]))
                .unwrap()
        };
        let mut whole = program(2);
        let stored = || {
            let file = WeightsFile::open(&path).unwrap();
            let names = ["first", "second"];
            names
                .map(|n| (n.to_string(), file.stored(n).unwrap()))
                .into()
        };
        whole.load_stored(stored()).unwrap();
        let first = whole.run(&x).unwrap();
        let mut other = program(3);
        let weights = stored();
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 30]).unwrap();
        let error = other.load_stored(weights).unwrap_err().to_string();
        assert!(
            error.starts_with("weight `first`: weights file "),
            "{error}"
        );
        let error = other.run(&x).unwrap_err().to_string();
        assert!(error.contains("weights are not loaded"), "{error}");
        // what is loaded stays, until other dims read it again
        assert_eq!(whole.run(&x).unwrap(), first);
        let three = named([("x", ramp(&[3, 2]))]);
        assert!(
            whole
                .run(&three)
                .unwrap_err()
                .to_string()
                .contains("weights file")
        );
        assert_eq!(whole.run(&x).unwrap(), first);
        fs::write(&path, &bytes).unwrap();
        other.load_stored(stored()).unwrap();
        assert_eq!(other.run(&x).unwrap(), first);
    });
}

/// The last weights count; a refused load changes nothing, and weights never change the dims.
#[test]
fn weights_can_be_loaded_again() {
    within(|| {
        let mut program = loaded(&session(2));
        let x = named([("x", ramp(&[2, 3]))]);
        let first = program.run(&x).unwrap();
        for wrong in [
            named([]),
            named([("v", ramp(&[3, 4]))]),
            named([("w", ramp(&[12]))]),
            named([("w", ramp(&[3, 5]))]),
            named([("w", ramp(&[3, 4])), ("v", ramp(&[3, 4]))]),
        ] {
            assert!(matches!(program.load(wrong), Err(Error::Shapes(_))));
            assert_eq!(program.run(&x).unwrap(), first);
        }
        let error = program.run(&named([("x", ramp(&[2, 4]))])).unwrap_err();
        assert!(
            error.to_string().contains("by the dims compiled for"),
            "{error}"
        );
        program.load(named([("w", ramp(&[3, 4]))])).unwrap();
        assert_eq!(program.run(&x).unwrap(), first);
        // dims that cannot be planned
        let huge = eindecomp_runtime::Tensor::new(
            vec![usize::MAX, 0],
            eindecomp_runtime::Data::F32(vec![]),
        );
        assert!(program.load(named([("w", huge.unwrap())])).is_err());
        assert_eq!(program.run(&x).unwrap(), first);
    });
}

#[test]
fn arrays_of_any_layout_are_packed() {
    within(|| {
        let compiled = session(2)
            .compile(two::graph(), two::Dims { b: 2 })
            .unwrap();
        let first = arr2(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
        let mut second = first.clone();
        second.swap_axes(0, 1);
        let mut compiled = compiled.load(two::Weights { first, second }).unwrap();
        let mut x = arr2(&[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]);
        x.slice_collapse(ndarray::s![1..;2, ..;-1]);
        let y = compiled.run(two::Inputs { x }).unwrap();
        assert_eq!(
            y.y,
            arr2(&[
                [14.0 * 4.0 + 32.0 * 3.0, 32.0 * 4.0 + 77.0 * 3.0],
                [14.0 * 8.0 + 32.0 * 7.0, 32.0 * 8.0 + 77.0 * 7.0]
            ])
        );
    });
}
