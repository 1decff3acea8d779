/// The command line as values.
struct Options {
    /// What is wrong with a command line, and what was expected.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    var url = ""
    var output = "."
    var connections = 1
    var sha256: String?

    init(_ arguments: [String]) throws(Failure) {
        var rest = arguments[...]
        while let word = rest.popFirst() {
            switch word {
            case "-o": output = try Self.value(of: word, &rest)
            case "--sha256": sha256 = try Self.value(of: word, &rest)
            case "-n":
                let text = try Self.value(of: word, &rest)
                guard let number = Int(text), 1...16 ~= number else {
                    throw Failure(description: "-n \"\(text)\" is not a number of connections; write 1 to 16")
                }
                connections = number
            case _ where word.hasPrefix("-"): throw Failure(description: "the option \(word) is unknown")
            case _ where url.isEmpty: url = word
            default: throw Failure(description: "\"\(word)\" is a second URL; fetch takes one")
            }
        }
        if url.isEmpty { throw Failure(description: "the URL is missing") }
    }

    private static func value(of option: String, _ rest: inout ArraySlice<String>) throws(Failure) -> String {
        guard let value = rest.popFirst() else { throw Failure(description: "\(option) needs a value after it") }
        return value
    }
}
