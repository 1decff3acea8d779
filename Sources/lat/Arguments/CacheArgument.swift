import LATNetworking

/// A cache policy as it is written on the command line: `http`, `cacheOnly`, `cacheElseNetwork:5m`.
enum CacheArgument {
    private static let words: [(name: String, policy: CachePolicy)] = [
        ("networkOnly", .networkOnly), ("writeOnly", .writeOnly), ("cacheOnly", .cacheOnly),
        ("networkElseCache", .networkElseCache), ("http", .http),
    ]
    private static let timed = "cacheElseNetwork"

    /// The policy that an option names; `nil` when it was not given.
    ///
    /// - Throws: ``UsageError`` that names the option, and the nearest policy.
    static func parse(_ arguments: ParsedArguments, of option: Option) throws(UsageError) -> CachePolicy? {
        guard let text = arguments.value(option) else { return nil }
        if let known = words.first(where: { $0.name == text }) { return known.policy }
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        if parts.first.map(String.init) == timed {
            guard parts.count == 2 else {
                throw UsageError("\(option.name) \(timed) needs to know for how long; write \(timed):5m")
            }
            if parts[1] == "forever" { return .cacheElseNetwork(.forever) }
            return .cacheElseNetwork(.fixed(try DurationArgument.parse(String(parts[1]), of: option)))
        }
        let names = words.map(\.name) + ["\(timed):TIME"]
        throw UsageError(
            "\(option.name) \"\(SafeText.line(text))\" is no policy for one answer; write one of "
                + names.joined(separator: ", "))
    }
}
