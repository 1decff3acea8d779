import LATNetworking

/// A header as it is written on the command line: `Name: value`, `Name:` to leave one out that would be
/// sent by itself, `Name;` to send it empty.
enum HeaderArgument {
    /// The headers of all arguments, in order, repeats kept.
    ///
    /// - Throws: ``UsageError`` that names the argument.
    static func parse(_ arguments: [String], of option: Option) throws(UsageError) -> HTTPHeaders {
        var headers = HTTPHeaders()
        for argument in arguments {
            let (name, value) = try parse(argument, of: option)
            if let value { headers.append(name, value) } else { headers[name] = nil }
        }
        return headers
    }

    private static func parse(
        _ argument: String, of option: Option
    ) throws(UsageError) -> (name: String, value: String?) {
        let shown = SafeText.line(argument)
        guard let end = argument.firstIndex(where: { $0 == ":" || $0 == ";" }) else {
            throw UsageError("\(option.name) \"\(shown)\" has no colon; write 'Name: value'")
        }
        let name = argument[..<end]
        guard HTTPMethod(String(name)).isToken else {
            throw UsageError(
                "\(option.name) \"\(shown)\" has no usable name before the colon; write 'Name: value' without "
                    + "blanks in the name")
        }
        let value = String(argument[argument.index(after: end)...].drop { $0 == " " || $0 == "\t" })
        guard !value.unicodeScalars.contains(where: { $0.value < 0x20 && $0 != "\t" || $0.value == 0x7F }) else {
            throw UsageError("\(option.name) \"\(shown)\" holds a control character; remove it")
        }
        if argument[end] == ";" {
            guard value.isEmpty else {
                throw UsageError(
                    "\(option.name) \"\(shown)\" has no colon; write 'Name: value', or '\(name);' to "
                        + "send it empty")
            }
            return (String(name), "")
        }
        return (String(name), value.isEmpty ? nil : value)
    }
}
