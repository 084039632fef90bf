//! What a case expects of its outputs.

use serde_json::Value as Json;

/// A result as plain numbers, whatever computed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub shape: Vec<usize>,
    pub data: Vec<f64>,
}

/// The right output, in full or at some places.
pub struct Expect {
    shape: Vec<usize>,
    /// Any of these is right.
    values: Vec<Vec<f64>>,
    /// Flat index and value.
    probes: Vec<(usize, f64)>,
    sum: Option<f64>,
    abs_sum: Option<f64>,
    /// `|got − want| ≤ atol + rtol·|want|`.
    rtol: f64,
    atol: f64,
}

/// A number; JSON has the non-finite ones as strings.
pub fn number(v: &Json) -> f64 {
    match v {
        Json::String(s) if s == "NaN" => f64::NAN,
        Json::String(s) if s == "Infinity" => f64::INFINITY,
        Json::String(s) if s == "-Infinity" => f64::NEG_INFINITY,
        v => v.as_f64().unwrap_or_else(|| panic!("no number: {v}")),
    }
}

pub fn numbers(v: &Json) -> Vec<f64> {
    list(v).iter().map(number).collect()
}

pub fn list(v: &Json) -> &[Json] {
    v.as_array().map_or(&[], Vec::as_slice)
}

pub fn shape(v: &Json) -> Vec<usize> {
    numbers(v).into_iter().map(|n| n as usize).collect()
}

impl Expect {
    /// `{shape, values, accept?, rtol?, atol?}`; tolerances are those of the surrounding object
    /// where it has them.
    pub fn values(v: &Json, tolerances: &Json) -> Expect {
        let shape = shape(&v["shape"]);
        let mut values = match (&v["values"], &v["all"]) {
            (Json::Null, Json::Null) => Vec::new(),
            (Json::Null, all) => vec![vec![number(all); shape.iter().product()]],
            (values, _) => vec![numbers(values)],
        };
        values.extend(list(&v["accept"]).iter().map(numbers));
        Expect {
            shape,
            values,
            probes: Vec::new(),
            sum: v["sum"].as_f64(),
            abs_sum: v["abs_sum"].as_f64(),
            rtol: tolerances["rtol"].as_f64().unwrap_or(1e-12),
            atol: tolerances["atol"].as_f64().unwrap_or(1e-12),
        }
    }

    /// `{shape, sum, abs_sum, probes, scale}`: within `tolerance · scale`, or exact.
    pub fn probes(v: &Json, tolerance: f64, exact: bool) -> Expect {
        let probe = |p: &Json| (number(&p[0]) as usize, number(&p[1]));
        Expect {
            shape: shape(&v["shape"]),
            values: Vec::new(),
            probes: list(&v["probes"]).iter().map(probe).collect(),
            sum: v["sum"].as_f64(),
            abs_sum: v["abs_sum"].as_f64(),
            rtol: 0.0,
            atol: if exact {
                0.0
            } else {
                tolerance * number(&v["scale"])
            },
        }
    }

    /// Compares.
    ///
    /// # Errors
    /// The first difference, with got and want.
    pub fn check(&self, got: &Output) -> Result<(), String> {
        if got.shape != self.shape {
            return Err(format!("got shape {:?}, want {:?}", got.shape, self.shape));
        }
        let at = |n: usize| got.data.get(n).copied().unwrap_or(f64::NAN);
        let differs = |want: &Vec<f64>| {
            if want.len() != got.data.len() {
                let (got, want) = (got.data.len(), want.len());
                return Some(format!("got {got} elements, want {want}"));
            }
            let mut pairs = got.data.iter().zip(want);
            let wrong = pairs.position(|(&got, &want)| !self.close(got, want, 1.0))?;
            Some(format!(
                "[{wrong}]: got {}, want {}",
                got.data[wrong], want[wrong]
            ))
        };
        let differences: Vec<String> = self.values.iter().map_while(differs).collect();
        if !self.values.is_empty() && differences.len() == self.values.len() {
            return Err(differences[0].clone());
        }
        for &(n, want) in &self.probes {
            if !self.close(at(n), want, 1.0) {
                return Err(format!("[{n}]: got {}, want {want}", at(n)));
            }
        }
        let count = got.data.len().max(1) as f64;
        for (name, want, each) in [
            ("sum", self.sum, (|x| x) as fn(f64) -> f64),
            ("sum of magnitudes", self.abs_sum, f64::abs),
        ] {
            let sum: f64 = got.data.iter().copied().map(each).sum();
            if let Some(want) = want.filter(|&want| !self.close(sum, want, count)) {
                return Err(format!("{name}: got {sum}, want {want}"));
            }
        }
        Ok(())
    }

    fn close(&self, got: f64, want: f64, count: f64) -> bool {
        got == want
            || (got.is_nan() && want.is_nan())
            || (got - want).abs() <= self.atol * count + self.rtol * want.abs()
    }
}
