//! The periodic table, as far as reading SMILES needs it.

/// Symbols by atomic number; 0 is the wildcard `*`.
const SYMBOLS: [&str; 119] = [
    "*", "H", "He", "Li", "Be", "B", "C", "N", "O", "F", "Ne", "Na", "Mg", "Al", "Si", "P", "S",
    "Cl", "Ar", "K", "Ca", "Sc", "Ti", "V", "Cr", "Mn", "Fe", "Co", "Ni", "Cu", "Zn", "Ga", "Ge",
    "As", "Se", "Br", "Kr", "Rb", "Sr", "Y", "Zr", "Nb", "Mo", "Tc", "Ru", "Rh", "Pd", "Ag", "Cd",
    "In", "Sn", "Sb", "Te", "I", "Xe", "Cs", "Ba", "La", "Ce", "Pr", "Nd", "Pm", "Sm", "Eu", "Gd",
    "Tb", "Dy", "Ho", "Er", "Tm", "Yb", "Lu", "Hf", "Ta", "W", "Re", "Os", "Ir", "Pt", "Au", "Hg",
    "Tl", "Pb", "Bi", "Po", "At", "Rn", "Fr", "Ra", "Ac", "Th", "Pa", "U", "Np", "Pu", "Am", "Cm",
    "Bk", "Cf", "Es", "Fm", "Md", "No", "Lr", "Rf", "Db", "Sg", "Bh", "Hs", "Mt", "Ds", "Rg", "Cn",
    "Nh", "Fl", "Mc", "Lv", "Ts", "Og",
];

/// Symbols that SMILES may write in lower case, for an aromatic atom.
const AROMATIC: [&str; 10] = ["b", "c", "n", "o", "p", "s", "as", "se", "si", "te"];

/// A chemical element, or the wildcard `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element(u8);

impl Element {
    /// The element whose symbol `text` starts with, whether it is written as aromatic, and the
    /// bytes of the symbol; the longest symbol wins.
    pub fn prefix(text: &str) -> Option<(Self, bool, usize)> {
        [2, 1].into_iter().find_map(|length| {
            let symbol = text.get(..length)?;
            let aromatic = AROMATIC.contains(&symbol);
            let same =
                |known: &&str| **known == *symbol || aromatic && known.eq_ignore_ascii_case(symbol);
            let number = SYMBOLS.iter().position(same)?;
            Some((Self(u8::try_from(number).ok()?), aromatic, length))
        })
    }

    /// Its symbol, with a capital.
    pub fn symbol(self) -> &'static str {
        SYMBOLS[usize::from(self.0)]
    }

    /// Valences an atom without brackets fills up with hydrogens, the lowest first; none for
    /// elements that must be written in brackets (OpenSMILES 3.1.5).
    pub fn normal_valences(self) -> &'static [u32] {
        match self.symbol() {
            "B" => &[3],
            "C" => &[4],
            "N" | "P" => &[3, 5],
            "O" => &[2],
            "S" => &[2, 4, 6],
            "F" | "Cl" | "Br" | "I" => &[1],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_symbol_wins_and_lower_case_is_aromatic() {
        let read = |text| Element::prefix(text).map(|(e, aromatic, n)| (e.symbol(), aromatic, n));
        assert_eq!(read("Cl]"), Some(("Cl", false, 2)));
        assert_eq!(read("CH3"), Some(("C", false, 1)));
        assert_eq!(read("se]"), Some(("Se", true, 2)));
        assert_eq!(read("nH]"), Some(("N", true, 1)));
        assert_eq!(read("H+]"), Some(("H", false, 1)));
        assert_eq!(read("*"), Some(("*", false, 1)));
        assert_eq!(read("Og"), Some(("Og", false, 2)));
        assert_eq!(read("cl"), Some(("C", true, 1)));
        for nothing in ["", "x", "Xx", "é"] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }
}
