import LATNetworking

/// A parameter as it is written on the command line: `name=text`, or `name:=json` for anything typed.
enum ParameterArgument {
    /// The parameters of all arguments.
    ///
    /// - Throws: ``UsageError`` that names the argument.
    static func parse(_ arguments: [String], of option: Option) throws(UsageError) -> [String: JSONValue] {
        var parameters: [String: JSONValue] = [:]
        for argument in arguments {
            let (name, value) = try parse(argument, of: option)
            if parameters[name] != nil {
                throw UsageError(
                    "\(option.name) \"\(name)\" is given twice; for several values write '\(name):=[\"a\",\"b\"]'")
            }
            parameters[name] = value
        }
        return parameters
    }

    private static func parse(
        _ argument: String, of option: Option
    ) throws(UsageError) -> (name: String, value: JSONValue) {
        guard let equals = argument.utf8.firstIndex(of: UInt8(ascii: "=")) else {
            throw UsageError(
                "\(option.name) \"\(argument)\" has no value; write name=text, or name:=json for a number, "
                    + "list or object")
        }
        let value = String(argument[argument.utf8.index(after: equals)...])
        var name = argument[..<equals]
        let isTyped = name.utf8.last == UInt8(ascii: ":")
        if isTyped { name.removeLast() }
        guard !name.isEmpty else {
            throw UsageError("\(option.name) \"\(argument)\" has no name; write name=text or name:=json")
        }
        guard isTyped else { return (String(name), .string(value)) }
        do {
            return (String(name), try JSONValue(parsing: value))
        } catch {
            throw UsageError(
                "\(option.name) \"\(argument)\" is not JSON after := (\(error)); for a text write \(name)=\(value)")
        }
    }
}
