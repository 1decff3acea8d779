/// What set a value of the table.
public enum SettingOrigin: Hashable, Sendable, CustomStringConvertible {
    /// A place of the file.
    case file(SourcePosition)
    /// The program, at run time.
    case code
    /// A variable of the process's environment, `LAT_ENVIRONMENT`.
    case variable(String)

    /// `file:line`, `code`, or the variable's name.
    public var description: String {
        switch self {
        case .file(let position): position.fileAndLine
        case .code: "code"
        case .variable(let name): name
        }
    }
}

/// A value that may be unset, and what set it. Setting it in code makes ``SettingOrigin/code`` the origin.
///
/// ```swift
/// row.settings.timeout = .seconds(5)
/// row.settings.$timeout.origin   // .code
/// ```
@propertyWrapper
public struct Tracked<Value: Sendable>: Sendable {
    /// The value, `nil` when nothing set it.
    public var wrappedValue: Value? {
        didSet { origin = wrappedValue == nil ? nil : .code }
    }
    /// What set the value, `nil` when nothing did.
    public private(set) var origin: SettingOrigin?

    /// A value set in code, or none.
    public init(wrappedValue: Value?) {
        self.wrappedValue = wrappedValue
        origin = wrappedValue == nil ? nil : .code
    }

    /// A value with its origin.
    package init(_ value: Value?, from origin: SettingOrigin?) {
        wrappedValue = value
        self.origin = value == nil ? nil : origin
    }

    /// The value with its origin.
    public var projectedValue: Tracked {
        get { self }
        set { self = newValue }
    }

    /// This one, or the other when this one is unset.
    func over(_ other: Tracked) -> Tracked { wrappedValue == nil ? other : self }
}

/// Where the values of a dictionary came from. A value that was changed since came from code.
struct OriginMap<Value: Equatable & Sendable>: Sendable {
    private var entries: [String: (value: Value, origin: SettingOrigin)] = [:]

    subscript(name: String, value: Value) -> SettingOrigin {
        guard let entry = entries[name], entry.value == value else { return .code }
        return entry.origin
    }

    mutating func set(_ value: Value, of name: String, from origin: SettingOrigin) { entries[name] = (value, origin) }
}
