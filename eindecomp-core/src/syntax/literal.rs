//! What Rust's literals are worth.

use super::ast::Lit;
use crate::ein::DType;

/// The value of a number as written.
///
/// # Errors
/// A message, if it has a suffix, is out of range, or is no number.
pub fn number(text: &str) -> Result<Lit, String> {
    let digits: String = text.chars().filter(|&ch| ch != '_').collect();
    let radix = [("0x", 16), ("0o", 8), ("0b", 2)]
        .iter()
        .find_map(|&(prefix, radix)| Some((digits.strip_prefix(prefix)?, radix)));
    if let Some((body, radix)) = radix {
        return integer(text, body, radix);
    }
    if !text.starts_with(|ch: char| ch.is_ascii_digit()) {
        return Err(format!("expected a number, found `{text}`"));
    }
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        return integer(text, &digits, 10);
    }
    let suffix = digits.trim_start_matches(|ch: char| ch.is_ascii_digit() || ch == '.');
    let exponent = suffix
        .strip_prefix(['e', 'E'])
        .map(|e| e.strip_prefix(['+', '-']).unwrap_or(e));
    let is_float = match exponent {
        Some(exponent) => !exponent.is_empty() && exponent.bytes().all(|b| b.is_ascii_digit()),
        None => suffix.is_empty(),
    };
    match digits.parse::<f64>() {
        Ok(value) if is_float && value.is_finite() => Ok(Lit::Float(value)),
        Ok(_) if is_float => Err(format!("the literal `{text}` is out of range")),
        _ => Err(suffixed(text)),
    }
}

fn integer(text: &str, body: &str, radix: u32) -> Result<Lit, String> {
    if body.is_empty() || !body.chars().all(|ch| ch.is_digit(radix)) {
        return Err(suffixed(text));
    }
    let value = u64::from_str_radix(body, radix);
    value
        .map(Lit::Int)
        .map_err(|_| format!("the literal `{text}` is out of range"))
}

fn suffixed(text: &str) -> String {
    format!("the literal `{text}` is malformed; a dtype comes from context or `as`, not a suffix")
}

/// What other languages have behind numbers, and whether it makes a float.
const SUFFIXES: [(&str, bool); 14] = [
    ("f", true),
    ("F", true),
    ("d", true),
    ("h", true),
    ("usize", false),
    ("isize", false),
    ("i8", false),
    ("i16", false),
    ("u16", false),
    ("u64", false),
    ("u", false),
    ("L", false),
    ("l", false),
    ("UL", false),
];

/// A number without the dtype behind it: `2f32` → `2.0`.
pub fn without_suffix(text: &str) -> Option<String> {
    let dtypes = DType::ALL.into_iter().map(|d| (d.name(), d.is_float()));
    let suffixes = dtypes
        .chain(SUFFIXES)
        .filter(|(suffix, _)| text.ends_with(suffix));
    let (suffix, is_float) = suffixes.max_by_key(|(suffix, _)| suffix.len())?;
    let bare = text.strip_suffix(suffix)?.trim_end_matches('_');
    match number(bare).ok()? {
        Lit::Int(_) if is_float => Some(format!("{bare}.0")),
        _ => Some(bare.to_owned()),
    }
}

/// The text of a string literal, plain or raw; `None` for any other literal.
pub fn string(text: &str) -> Option<String> {
    if let Some(raw) = text.strip_prefix('r') {
        let body = raw.trim_matches('#');
        return Some(body.strip_prefix('"')?.strip_suffix('"')?.to_owned());
    }
    let body = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut out = String::with_capacity(body.len());
    let mut chars = body.chars();
    while let Some(ch) = chars.next() {
        if ch != '\\' {
            out.push(ch);
            continue;
        }
        match chars.next()? {
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            '0' => out.push('\0'),
            'x' => {
                let hex: String = chars.by_ref().take(2).collect();
                out.push(char::from_u32(u32::from_str_radix(&hex, 16).ok()?)?);
            }
            'u' => {
                let hex: String = chars
                    .by_ref()
                    .take_while(|&c| c != '}')
                    .filter(|c| *c != '{')
                    .collect();
                out.push(char::from_u32(u32::from_str_radix(&hex, 16).ok()?)?);
            }
            // A line continuation eats the line break and the indentation after it.
            '\n' => {
                let rest = chars.as_str().trim_start();
                chars = rest.chars();
            }
            other => out.push(other),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number("1_000"), Ok(Lit::Int(1000)));
        assert_eq!(number("0xff"), Ok(Lit::Int(255)));
        assert_eq!(number("1."), Ok(Lit::Float(1.0)));
        assert_eq!(number("1.5e-3"), Ok(Lit::Float(0.0015)));
        assert_eq!(number("18446744073709551615"), Ok(Lit::Int(u64::MAX)));
    }

    #[test]
    fn not_numbers() {
        for text in [
            "1.0f32",
            "3u8",
            "0x",
            "0b12",
            "1e",
            "1e999",
            "1E+",
            "99999999999999999999",
        ] {
            assert!(number(text).is_err(), "{text}");
        }
        for text in ["\"a\"", "'a'", "1.2.3", "inf", "nan"] {
            assert!(number(text).is_err(), "{text}");
        }
    }

    #[test]
    fn suffixes() {
        let bare = |text| without_suffix(text);
        assert_eq!(bare("2.0f32").as_deref(), Some("2.0"));
        assert_eq!(bare("2_bf16").as_deref(), Some("2.0"));
        assert_eq!(bare("1u8").as_deref(), Some("1"));
        assert_eq!(bare("1q"), None);
    }

    #[test]
    fn strings() {
        assert_eq!(string(r#""a\n\"\u{e9}\x41""#).as_deref(), Some("a\n\"éA"));
        assert_eq!(string(r##"r#"a"b"#"##).as_deref(), Some("a\"b"));
        assert_eq!(string("1"), None);
        assert_eq!(string("\"\\"), None);
        let text = "a \"b\" \\ \t é \u{7f} '";
        assert_eq!(string(&format!("{text:?}")).as_deref(), Some(text));
    }
}
