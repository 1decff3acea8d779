/// The authorities that are trusted: `--ca FILE`.
enum AuthorityArgument {
    static let option = Option(
        "--ca", value: "FILE", help: "Trusts the authorities in this PEM file in place of the system's.")
}
