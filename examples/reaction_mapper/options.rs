//! The command line.

use std::num::NonZeroU32;

/// How to call the example.
pub const USAGE: &str = "\
usage: reaction_mapper [--devices P] [REACTION | TOKEN-IDS]...

  REACTION   a reaction SMILES, reactants>>products; [MASK] stands for a token to predict
  TOKEN-IDS  the ids of one input, between commas or blanks
  --devices  devices to plan for and to run on (default 4)

Without inputs, a few known reactions are mapped, one of them with a product token masked.";

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Devices to plan for and to run on.
    pub devices: NonZeroU32,
    /// Reactions or lists of token ids, as typed.
    pub inputs: Vec<String>,
    /// Only print [`USAGE`].
    pub help: bool,
}

/// Why a command line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// An option that does not exist.
    #[error("there is no option `{option}`\n{USAGE}")]
    Unknown {
        /// As typed.
        option: String,
    },
    /// `--devices` is not followed by a number from 1 up.
    #[error("--devices takes a whole number from 1 up, not `{found}`")]
    Devices {
        /// As typed; empty if it is missing.
        found: String,
    },
}

impl Options {
    /// Reads the arguments after the program's name.
    ///
    /// # Errors
    /// An unknown option, or a bad number of devices.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, OptionError> {
        let mut options = Self {
            devices: NonZeroU32::MIN.saturating_add(3),
            inputs: Vec::new(),
            help: false,
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let given = argument.strip_prefix("--devices=").map(str::to_owned);
            match argument.as_str() {
                "-h" | "--help" => options.help = true,
                "--devices" => {
                    options.devices = devices(arguments.next().unwrap_or_default())?;
                }
                _ if given.is_some() => options.devices = devices(given.unwrap_or_default())?,
                option if option.starts_with("--") => {
                    return Err(OptionError::Unknown { option: argument });
                }
                _ => options.inputs.push(argument),
            }
        }
        Ok(options)
    }
}

fn devices(found: String) -> Result<NonZeroU32, OptionError> {
    found.parse().map_err(|_| OptionError::Devices { found })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, OptionError> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_and_inputs_come_in_any_order() {
        let options = parse("C>>C --devices 2 12,13").unwrap();
        assert_eq!((options.devices.get(), options.help), (2, false));
        assert_eq!(options.inputs, ["C>>C", "12,13"]);
        assert_eq!(parse("--devices=8").unwrap().devices.get(), 8);
        assert_eq!(parse("").unwrap().devices.get(), 4);
        assert!(parse("--help").unwrap().help);
    }

    #[test]
    fn bad_options_are_named() {
        for (line, found) in [
            ("--devices 0", "0"),
            ("--devices=x", "x"),
            ("--devices", ""),
            ("--devices 4294967296", "4294967296"),
        ] {
            assert_eq!(
                parse(line),
                Err(OptionError::Devices {
                    found: found.into()
                }),
                "{line}"
            );
        }
        assert_eq!(
            parse("--device 3"),
            Err(OptionError::Unknown {
                option: "--device".into()
            })
        );
    }
}
