//! `include_plans!`: the entries of a folder as part of a binary. The only macro that reads files.

use std::path::{Path, PathBuf};
use std::{fs, io};

use proc_macro2::{Literal, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};

/// Of `$crate "folder"`: the plans in a folder beside the crate's manifest.
pub(crate) fn include(input: TokenStream) -> TokenStream {
    let mut input = input.into_iter();
    let (Some(krate), Some(folder)) = (input.next(), input.next()) else {
        return TokenStream::new();
    };
    let span = folder.span();
    let entries = name(folder).and_then(|name| {
        let root = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let folder = root.unwrap_or_default().join(&name);
        let entries = entries(&folder).map_err(|e| {
            let folder = folder.display();
            format!(
                "plans cannot be included: folder {folder}: {e}; `cargo eindecomp plan` makes it, with the plans that \
                 eindecomp.toml names"
            )
        })?;
        let attributes = folder.join(".gitattributes");
        let attributes = attributes.is_file().then_some(attributes);
        let attributes = attributes.and_then(|path| path.to_str().map(String::from));
        Ok((name, entries, attributes))
    });
    let (name, entries, attributes) = match entries {
        Ok(entries) => entries,
        Err(message) => return error(&message, span),
    };
    let files = entries.iter().map(|(hash, path)| {
        let (hash, path) = (Literal::string(hash), Literal::string(path));
        quote!((#hash, #krate::__private::core::include_bytes!(#path)))
    });
    // what writes a new entry makes this file as new: the first entries are noticed by the next build
    let noticed = attributes.map(|path| {
        let path = Literal::string(&path);
        quote!(const _: &[#krate::__private::core::primitive::u8] = #krate::__private::core::include_bytes!(#path);)
    });
    quote!({ #noticed #krate::EmbeddedPlans::new(#name, &[#(#files),*]) })
}

/// The text of a plain string literal, which may come in an invisible group.
fn name(token: TokenTree) -> Result<String, String> {
    let text = match token {
        TokenTree::Group(group) => group.stream().to_string(),
        token => token.to_string(),
    };
    let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    let plain = inner.filter(|t| !t.contains('\\'));
    plain.map(String::from).ok_or_else(|| {
        format!("include_plans! takes a folder as a string without escapes, not {text}")
    })
}

/// Every entry of a folder: its key's hash and its absolute path.
fn entries(folder: &Path) -> io::Result<Vec<(String, String)>> {
    let mut entries = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let Some(name) = path.file_name().and_then(|n| n.to_str()) else {
            continue;
        };
        let hash = name.strip_suffix(".json");
        let digits = |h: &&str| h.len() == 64 && h.bytes().all(|b| b.is_ascii_hexdigit());
        if let (Some(hash), Some(path)) = (hash.filter(digits), path.to_str()) {
            entries.push((hash.to_string(), path.to_string()));
        }
    }
    entries.sort();
    Ok(entries)
}

fn error(message: &str, span: Span) -> TokenStream {
    let message = Literal::string(message);
    quote_spanned!(span=> ::core::compile_error!(#message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_included_under_the_name_that_the_crate_has() {
        let included = |input: TokenStream| include(input).to_string();
        assert_eq!(
            included(quote!(ed "src")),
            r#"{ ed :: EmbeddedPlans :: new ("src" , & []) }"#
        );
        let missing = included(quote!(ed "no/such"));
        for part in [
            "compile_error",
            "no/such: No such file",
            "`cargo eindecomp plan` makes it",
        ] {
            assert!(missing.contains(part), "{missing}");
        }
        let escaped = included(quote!(ed "a\\b"));
        assert!(escaped.contains("a string without escapes"), "{escaped}");
    }
}
