/// The file a body goes to: `-o FILE`.
enum OutputArgument {
    static let option = Option(
        "--output", "-o", value: "FILE",
        help: "Writes the body to a file, which appears when it is whole. The body of a failure does not go there.")

    /// The name; `nil` when none is given, and for `-`, which is standard output.
    ///
    /// - Throws: ``UsageError`` for an empty one.
    static func parse(_ arguments: ParsedArguments) throws(UsageError) -> String? {
        guard let name = arguments.value(option), name != "-" else { return nil }
        guard !name.isEmpty else { throw UsageError("\(option.name) \"\" names no file; write -o FILE") }
        return name
    }
}
