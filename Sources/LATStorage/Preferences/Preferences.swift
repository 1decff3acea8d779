import FoundationEssentials
public import HTTPCore
import Platform
import Synchronization

/// Settings with types and defaults, kept in a file of JSON.
///
/// ```swift
/// extension PreferenceKey<Int> { static var fontSize: Self { Self("fontSize", default: 12) } }
///
/// let preferences = Preferences(path: "/home/ada/.config/app/preferences.json")
/// preferences[.fontSize]                                          // 12
/// try preferences.set(.fontSize, to: 14)
/// try preferences.update { $0[.fontSize] += 1 }                   // read and written in one, whoever else writes
/// for await size in preferences.values(of: .fontSize) { show(size) }
/// ```
///
/// A write replaces the file as a whole (a new file, `fsync`, `rename`), so that a crash leaves the old or the new one.
/// Any number of processes may share it: each write changes only what it is about, under a lock (`flock` on
/// `<path>.lock`), and a read looks whether the file is still the same one. Names that this program does not know stay.
///
/// A file that is damaged is never lost: it is renamed to `<path>.corrupt-<time>`, reported to `onProblem`, and the
/// defaults hold. A file that cannot be read is reported too, and never overwritten.
public final class Preferences: Sendable {
    /// Where the file is.
    public let path: String
    private let file: PreferenceFile
    private let onProblem: (@Sendable (NetworkError) -> Void)?
    private let state = Mutex(State())
    private let hub = PreferenceHub()
    /// Held from a look at the file to taking what it holds, so that an older look never follows a newer one. Where the
    /// file's lock is wanted too, that comes first.
    private let loading = Mutex(())

    private struct State {
        var values: [String: JSONValue] = [:]
        var stamp: PreferenceFile.Stamp?
        var isLoaded = false
        /// Values as they were read, until the file changes.
        var decoded: [String: any Sendable] = [:]
        /// What was reported last, so that one mistake is one report.
        var reported: String?
    }

    /// Opens preferences. Nothing is read or made before it is needed.
    ///
    /// - Parameters:
    ///   - path: where the file is, or will be at the first write; folders on the way are made.
    ///   - onProblem: told when the file or a value in it cannot be used, once for each; on the thread that found it.
    ///     Default: nobody.
    public init(path: String, onProblem: (@Sendable (NetworkError) -> Void)? = nil) {
        self.path = path
        self.onProblem = onProblem
        file = PreferenceFile(path: path)
    }

    deinit { hub.end() }

    // MARK: Reading

    /// What is set, else the default.
    public subscript<Value>(key: PreferenceKey<Value>) -> Value {
        refresh()
        // Unwrapped first: no value at all would pass for a `nil` that is one.
        if let kept = state.withLock({ $0.decoded[key.name] }), let value = kept as? Value { return value }
        guard let json = state.withLock({ $0.values[key.name] }) else { return key.defaultValue }
        do {
            let value = try json.decode(Value.self)
            state.withLock { if $0.values[key.name] == json { $0.decoded[key.name] = value } }
            return value
        } catch {
            report(
                .storage(
                    .value, "read \"\(key.name)\" of \(path)",
                    "it is no \(Value.self), so the default holds; set it anew, or mend the file"))
            return key.defaultValue
        }
    }

    /// Whether something is set, be it equal to the default.
    public func contains<Value>(_ key: PreferenceKey<Value>) -> Bool {
        refresh()
        return state.withLock { $0.values[key.name] != nil }
    }

    /// The names of all that is set, sorted.
    public var names: [String] {
        refresh()
        return state.withLock { $0.values.keys.sorted() }
    }

    /// Everything that is set, as in the file.
    var everything: [String: JSONValue] {
        refresh()
        return state.withLock { $0.values }
    }

    // MARK: Writing

    /// Sets a value.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/storage`` when the file cannot be written or the value
    /// not
    ///   be JSON. Nothing has changed then.
    public func set<Value>(_ key: PreferenceKey<Value>, to value: Value) throws {
        try update { $0.set(key, to: value) }
    }

    /// Sets nothing any longer, so that the default holds.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/storage`` when the file cannot be written.
    public func remove<Value>(_ key: PreferenceKey<Value>) throws { try update { $0.remove(key) } }

    /// Reads and writes in one: no other process or thread writes in between.
    ///
    /// - Parameter body: what to change. The file is written once, after it, and not at all when it throws or changes
    ///   nothing. It must not use the preferences themselves.
    /// - Throws: what the body throws; ``NetworkError`` of kind ``NetworkError/Kind/storage``.
    @discardableResult
    public func update<Result>(_ body: (inout PreferenceEditor) throws -> Result) throws -> Result {
        let (result, isChanged) = try file.locked {
            let (content, _) = try file.read()
            var values: [String: JSONValue] = [:]
            switch content {
            case .missing: break
            case .values(let found): values = found
            case .damaged(let reason): try setAside(reason)
            }
            var editor = PreferenceEditor(values: values)
            let result = try body(&editor)
            if let problem = editor.problem { throw problem }
            guard editor.values != values else {
                return (result, false)
            }
            try loading.withLock { _ in take(editor.values, try file.replace(by: editor.values)) }
            return (result, true)
        }
        if isChanged { report() }
        return result
    }

    // MARK: The file

    /// Reads the file when it is another than before.
    func refresh() {
        let stamp = file.stamp
        if state.withLock({ $0.isLoaded && $0.stamp == stamp }) { return }
        do {
            guard try load() != nil else { return }
            try file.locked {
                // Somebody may have mended it meanwhile.
                guard let reason = try load() else { return }
                try setAside(reason)
                take([:], nil)
            }
        } catch let error as NetworkError {
            // What was read before holds on, else the defaults.
            state.withLock {
                $0.isLoaded = true
                $0.stamp = stamp
            }
            report(error)
        } catch {}
    }

    /// Takes what the file holds. Returns why it cannot be when it is damaged.
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

    private func take(_ values: [String: JSONValue], _ stamp: PreferenceFile.Stamp?) {
        state.withLock {
            if $0.values != values { $0.decoded = [:] }
            ($0.values, $0.stamp, $0.isLoaded) = (values, stamp, true)
        }
    }

    private func setAside(_ reason: String) throws {
        let aside = try file.setAside()
        report(
            .storage(.corrupt, "read \(path)", "\(reason); it is kept as \(aside), and the defaults hold"))
    }

    /// Tells the observers what is so now, not what somebody saw before.
    private func report() {
        refresh()
        hub.report { state.withLock { $0.values } }
    }

    private func report(_ problem: NetworkError) {
        let isNew = state.withLock { state in
            defer { state.reported = problem.message }
            return state.reported != problem.message
        }
        if isNew { onProblem?(problem) }
    }

    // MARK: Observing

    /// A value now and after every change of it, by this process or another.
    ///
    /// Changes while one is worked on count as one. It ends when the task is cancelled or the preferences are let go
    /// of.
    public func values<Value>(of key: PreferenceKey<Value>) -> AsyncStream<Value> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let observation = observe(key, end: { continuation.finish() }) { continuation.yield($0) }
            continuation.onTermination = { _ in observation.cancel() }
        }
    }

    /// Calls with a value now, and after every change of it, by this process or another.
    ///
    /// - Parameter body: called before this returns, and then on the thread that wrote, or on one of the
    /// preferences' own.
    /// - Returns: what ends it when cancelled or let go of.
    public func observe<Value>(
        _ key: PreferenceKey<Value>, _ body: @escaping @Sendable (Value) -> Void
    ) -> PreferenceObservation { observe(key, end: {}, body) }

    private func observe<Value>(
        _ key: PreferenceKey<Value>, end: @escaping @Sendable () -> Void, _ body: @escaping @Sendable (Value) -> Void
    ) -> PreferenceObservation {
        if hub.needsWatch {
            let parts = PathParts(file.path)
            // A folder that is not there cannot be watched.
            try? FileManager.default.createDirectory(atPath: parts.folder, withIntermediateDirectories: true)
            hub.start(
                FolderWatch(folder: parts.folder, names: [parts.name]) { [weak self] names in
                    guard let self, !names.isEmpty else { return nil }
                    self.report()
                    return nil
                })
        }
        let number = hub.add(key.name, current: everything[key.name], end: end) { [weak self] in
            if let self { body(self[key]) }
        }
        body(self[key])
        return PreferenceObservation { [weak hub] in hub?.remove(number) }
    }
}

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

/// Values of ``Preferences`` while they are changed; see ``Preferences/update(_:)``.
public struct PreferenceEditor {
    var values: [String: JSONValue]
    /// The first value that could not be JSON.
    var problem: NetworkError?

    init(values: [String: JSONValue]) { self.values = values }

    /// What is set, else the default. Setting a value that cannot be JSON makes the update throw.
    public subscript<Value>(key: PreferenceKey<Value>) -> Value {
        get { values[key.name].flatMap { try? $0.decode(Value.self) } ?? key.defaultValue }
        set { set(key, to: newValue) }
    }

    /// Sets nothing any longer, so that the default holds.
    public mutating func remove<Value>(_ key: PreferenceKey<Value>) { values[key.name] = nil }

    mutating func set<Value>(_ key: PreferenceKey<Value>, to value: Value) {
        do {
            values[key.name] = try JSONValue(parsing: JSONEncoder().encode(value))
        } catch {
            problem =
                problem
                ?? .storage(
                    .value, "set \"\(key.name)\"", "a \(Value.self) cannot be JSON: \(error); nothing was written")
        }
    }
}
