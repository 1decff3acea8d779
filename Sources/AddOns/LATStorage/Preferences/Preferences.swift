import FoundationEssentials
import Glibc
public import HTTPCore
import Platform
import Synchronization

/// Typed settings with defaults, kept in a JSON file.
///
/// ```swift
/// extension PreferenceKey<Int> { static var fontSize: Self { Self("fontSize", default: 12) } }
///
/// let preferences = Preferences(path: "/home/ada/.config/app/preferences.json")
/// preferences[.fontSize]                                          // 12
/// try preferences.set(.fontSize, to: 14)
/// try preferences.update { $0[.fontSize] += 1 }                   // reads and writes in one step, under the lock
/// for await size in preferences.values(of: .fontSize) { show(size) }
/// ```
///
/// A write replaces the file as a whole (a new file, `fdatasync`, `rename`), so that a crash leaves the old or the new one.
/// Any number of processes may share the file. Each write changes only its own values, under a lock (`flock` on
/// `<path>.lock`), and each read checks whether the file was replaced. Names that this program does not know stay.
///
/// A damaged file is never lost: when it has not changed for 0.2 s, it is renamed to `<path>.corrupt-<time>` and reported to
/// `onProblem`, and the defaults apply. A file that cannot be read is reported too, and never overwritten.
public final class Preferences: Sendable {
    /// The path of the file.
    public let path: String
    private let file: PreferenceFile
    private let onProblem: (@Sendable (NetworkError) -> Void)?
    private let state = Mutex(State())
    private let hub = PreferenceHub()
    /// Held while the file is checked and its values are taken over, so that an older read never replaces a newer one.
    /// Where the file's lock is needed too, take that one first.
    private let loading = Mutex(())

    private struct State {
        var values: [String: JSONValue] = [:]
        var stamp: PreferenceFile.Stamp?
        var isLoaded = false
        /// Decoded values, until the file changes.
        var decoded: [String: any Sendable] = [:]
        /// The problems that were reported and still exist: by the name of the value, and those of the file under
        /// `nil`.
        var reported: [String?: Set<String>] = [:]
    }

    /// Opens preferences. The file is read when it is first needed.
    ///
    /// - Parameters:
    ///   - path: the path of the file. The first write makes it and the folders above it.
    ///   - onProblem: called when the file or a value in it cannot be used or watched, once for each problem until it is solved, on
    ///     the thread that found it. Default: none.
    public init(path: String, onProblem: (@Sendable (NetworkError) -> Void)? = nil) {
        self.path = path
        self.onProblem = onProblem
        file = PreferenceFile(path: path)
    }

    deinit { hub.end() }

    // MARK: Reading

    /// The value that is set, or the default.
    public subscript<Value>(key: PreferenceKey<Value>) -> Value {
        refresh()
        // Unwrapped before the cast: if `Value` is optional, a cast would turn a missing value into a stored `nil`.
        if let kept = state.withLock({ $0.decoded[key.name] }), let value = kept as? Value { return value }
        guard let json = state.withLock({ $0.values[key.name] }) else { return key.defaultValue }
        do {
            let value = try json.decode(Value.self, coding: PreferenceEditor.coding)
            state.withLock { if $0.values[key.name] == json { $0.decoded[key.name] = value } }
            return value
        } catch {
            report(mistyped(key.name, Value.self), of: key.name)
            return key.defaultValue
        }
    }

    /// Whether a value is set, even one equal to the default.
    public func contains<Value>(_ key: PreferenceKey<Value>) -> Bool {
        refresh()
        return state.withLock { $0.values[key.name] != nil }
    }

    /// The names of all values that are set, sorted.
    public var names: [String] {
        refresh()
        return state.withLock { $0.values.keys.sorted() }
    }

    /// All values that are set, as in the file.
    var everything: [String: JSONValue] {
        refresh()
        return state.withLock { $0.values }
    }

    // MARK: Writing

    /// Sets a value.
    ///
    /// - Throws: `NetworkError` of kind `NetworkError.Kind.storage` when the file cannot be written or the value
    ///   cannot be encoded as JSON. The stored value then stays unchanged.
    public func set<Value>(_ key: PreferenceKey<Value>, to value: Value) throws {
        try update { $0.set(key, to: value) }
    }

    /// Removes a value, so that the default applies.
    ///
    /// - Throws: `NetworkError` of kind `NetworkError.Kind.storage` when the file cannot be written.
    public func remove<Value>(_ key: PreferenceKey<Value>) throws { try update { $0.remove(key) } }

    /// Reads and writes values in one step: no other process or thread writes in between.
    ///
    /// - Parameter body: makes the changes. The file is written once, after the body returns, and not at all when it
    ///   throws or changes nothing. The body must not use the preferences themselves.
    /// - Throws: what the body throws; `NetworkError` of kind `NetworkError.Kind.storage`, with the reason
    ///   ``StorageFailure/Reason/busy`` when others have held the lock for 10 s.
    @discardableResult
    public func update<Result>(_ body: (inout PreferenceEditor) throws -> Result) throws -> Result {
        // Reported after the lock is released, because the app's closure may write preferences.
        var problems: [(name: String?, error: NetworkError)] = []
        defer { for problem in problems { report(problem.error, of: problem.name) } }
        let (result, isChanged) = try file.locked {
            let (content, _) = try file.read()
            var values: [String: JSONValue] = [:]
            switch content {
            case .missing: break
            case .values(let found): values = found
            case .damaged(let reason): problems.append((nil, try setAside(reason)))
            }
            var editor = PreferenceEditor(values: values) { problems.append(($0, self.mistyped($0, $1))) }
            let result = try body(&editor)
            if let problem = editor.problem { throw problem }
            guard editor.values != values else {
                return (result, false)
            }
            try loading.withLock { _ in
                try file.replace(by: editor.values)
                // Others may have replaced the file already, so it is read again when it is next needed.
                take(editor.values, nil, isLoaded: false)
            }
            return (result, true)
        }
        if isChanged { hub.report { state.withLock { $0.values } } }
        return result
    }

    // MARK: The file

    /// Reads the file again when it was replaced.
    func refresh() {
        let stamp = file.stamp
        if state.withLock({ $0.isLoaded && $0.stamp == stamp && $0.stamp?.isCertain != false }) { return }
        do {
            guard try load() != nil else { return }
            let damage = try file.locked { () -> NetworkError? in
                // Another process may have repaired it since.
                guard let reason = try load() else { return nil }
                let damage = try setAside(reason)
                take([:], nil)
                return damage
            }
            if let damage { report(damage) }
        } catch let error as NetworkError {
            // The values of an earlier read stay in use. If there was none, the defaults apply.
            state.withLock {
                $0.isLoaded = true
                $0.stamp = stamp
            }
            report(error)
        } catch {}
    }

    /// Reads the file and takes over its values. Returns what is wrong with the file when it is damaged.
    private func load() throws -> String? {
        try loading.withLock { _ in
            let (content, stamp) = try file.read()
            switch content {
            case .missing: take([:], nil)
            case .values(let values): take(values, stamp)
            case .damaged(let reason): return reason
            }
            return nil
        }
    }

    private func take(_ values: [String: JSONValue], _ stamp: PreferenceFile.Stamp?, isLoaded: Bool = true) {
        state.withLock {
            if $0.values != values { $0.decoded = [:] }
            if !$0.reported.isEmpty {
                let old = $0.values
                $0.reported = $0.reported.filter { name, _ in name.map { old[$0] == values[$0] } ?? false }
            }
            ($0.values, $0.stamp, $0.isLoaded) = (values, stamp, isLoaded)
        }
    }

    /// Returns the problem to report.
    private func setAside(_ reason: String) throws -> NetworkError {
        let aside = try file.setAside()
        return .storage(.corrupt, "read \(path)", "\(reason); it was renamed to \(aside), and the defaults apply")
    }

    private func mistyped(_ name: String, _ type: Any.Type) -> NetworkError {
        .storage(
            .value, "read \"\(name)\" of \(path)",
            "it is not a \(type), so the default applies; set it again, or repair the file")
    }

    /// Reads the file again and reports its values to the observers, so that they never receive values from an older
    /// read.
    private func report() {
        refresh()
        hub.report { state.withLock { $0.values } }
    }

    /// - Parameter name: the name of the value; `nil` for a problem of the file.
    private func report(_ problem: NetworkError, of name: String? = nil) {
        let isNew = state.withLock { $0.reported[name, default: []].insert(problem.message).inserted }
        if isNew { onProblem?(problem) }
    }

    // MARK: Observing

    /// The value now and after every change, by this process or another.
    ///
    /// Several changes during the processing of one element lead to one new element. The stream ends when the task is
    /// cancelled or the preferences are released.
    public func values<Value>(of key: PreferenceKey<Value>) -> AsyncStream<Value> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let observation = observe(key, end: { continuation.finish() }) { continuation.yield($0) }
            continuation.onTermination = { _ in observation.cancel() }
        }
    }

    /// Calls a body with the value now and after every change, by this process or another.
    ///
    /// - Parameters:
    ///   - key: the preference.
    ///   - body: called before this method returns, and then on the thread that wrote or on a thread of the preferences.
    /// - Returns: The observation, which ends when it is cancelled or released.
    public func observe<Value>(
        _ key: PreferenceKey<Value>, _ body: @escaping @Sendable (Value) -> Void
    ) -> PreferenceObservation { observe(key, end: {}, body) }

    private func observe<Value>(
        _ key: PreferenceKey<Value>, end: @escaping @Sendable () -> Void, _ body: @escaping @Sendable (Value) -> Void
    ) -> PreferenceObservation {
        hub.prepare()
        if hub.needsWatch {
            let parts = PathParts(file.path)
            // Only a folder that exists can be watched.
            try? FileManager.default.createDirectory(atPath: parts.folder, withIntermediateDirectories: true)
            let watch = FolderWatch(folder: parts.folder, names: [parts.name]) { [weak self] names in
                guard let self, !names.isEmpty else { return nil }
                self.report()
                return nil
            }
            if watch == nil {
                report(
                    file.failure(
                        "watch", errno,
                        "changes by other programs stay unseen; check its folder, and raise fs.inotify.max_user_instances"
                    ))
            }
            hub.start(watch)
        }
        let number = hub.add(key.name, current: everything[key.name], end: end) { [weak self] in
            if let self { body(self[key]) }
        }
        hub.call(number)
        return PreferenceObservation { [weak hub] in hub?.remove(number) }
    }
}

/// A setting: its name, its type, and its default.
///
/// ```swift
/// extension PreferenceKey<String> { static var theme: Self { Self("theme", default: "light") } }
/// extension PreferenceKey<[String]> { static var recentFiles: Self { Self("recentFiles", default: []) } }
/// ```
public struct PreferenceKey<Value: Codable & Sendable>: Sendable {
    /// The name in the file.
    public let name: String
    /// The value used when none is set, or when the one that is set has another type.
    public let defaultValue: Value

    /// Makes a key.
    public init(_ name: String, default defaultValue: Value) {
        self.name = name
        self.defaultValue = defaultValue
    }
}

/// The values of ``Preferences`` inside ``Preferences/update(_:)``.
public struct PreferenceEditor {
    /// Dates are seconds since 2001, as `JSONEncoder` writes them by default.
    static let coding = Coding(dates: .secondsSince2001)

    var values: [String: JSONValue]
    /// The error for the first value that could not be encoded as JSON.
    var problem: NetworkError?
    /// Called with the name of a value that has another type, and with the type that was asked for.
    private let onMistyped: (String, Any.Type) -> Void

    init(values: [String: JSONValue], onMistyped: @escaping (String, Any.Type) -> Void) {
        self.values = values
        self.onMistyped = onMistyped
    }

    /// The value that is set, or the default. Setting a value that cannot be encoded as JSON makes the update throw.
    public subscript<Value>(key: PreferenceKey<Value>) -> Value {
        get {
            guard let json = values[key.name] else { return key.defaultValue }
            do { return try json.decode(Value.self, coding: Self.coding) } catch {
                onMistyped(key.name, Value.self)
                return key.defaultValue
            }
        }
        set { set(key, to: newValue) }
    }

    /// Removes a value, so that the default applies.
    public mutating func remove<Value>(_ key: PreferenceKey<Value>) { values[key.name] = nil }

    mutating func set<Value>(_ key: PreferenceKey<Value>, to value: Value) {
        do {
            values[key.name] = try JSONValue(parsing: JSONEncoder().encode(value))
        } catch {
            let reason = (error as? EncodingError)?.summary ?? "\(error)"
            problem =
                problem
                ?? .storage(
                    .value, "set \"\(key.name)\"", "it cannot be encoded as JSON: \(reason); nothing was written")
        }
    }
}
