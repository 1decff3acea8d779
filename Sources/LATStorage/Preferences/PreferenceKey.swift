/// A setting by name, with its type and what holds while nothing is set.
///
/// ```swift
/// extension PreferenceKey<Int> { static var fontSize: Self { Self("fontSize", default: 12) } }
/// extension PreferenceKey<[String]> { static var recentFiles: Self { Self("recentFiles", default: []) } }
/// ```
public struct PreferenceKey<Value: Codable & Sendable>: Sendable {
    /// The name in the file.
    public let name: String
    /// What is read while nothing is set, or something of another type.
    public let defaultValue: Value

    /// Makes a key.
    public init(_ name: String, default defaultValue: Value) {
        self.name = name
        self.defaultValue = defaultValue
    }
}
