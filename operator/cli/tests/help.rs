//! The help of every command, as a file: what a newcomer reads before anything else.

use clap::CommandFactory;
use kubectl_slipway::args::Args;

#[test]
fn the_help_says_what_each_command_does_and_names_what_it_takes() {
    let mut command = Args::command();
    command.build();
    let own = command.render_help().to_string();
    let of_commands = command.get_subcommands_mut().filter(|command| command.get_name() != "help");
    let all: Vec<String> = [own].into_iter().chain(of_commands.map(|of| of.render_help().to_string())).collect();
    insta::assert_snapshot!("help", all.join("\n----\n\n"));
}
