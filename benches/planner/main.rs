//! How long planning takes and how good its plans are: `cargo bench --bench planner -- placed 64`.

mod llama;
mod placed;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let devices = arguments.iter().find_map(|a| a.parse().ok());
    if arguments.iter().any(|a| a == "placed") {
        placed::run(devices.unwrap_or(u32::MAX));
    }
}
