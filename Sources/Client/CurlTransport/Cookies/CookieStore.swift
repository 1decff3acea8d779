import CLibcurl
import Dispatch
import FoundationEssentials
import Glibc
internal import HTTPCore
import Platform
import Synchronization

/// The cookies of an engine and the file they are kept in.
///
/// The engine's thread stores and reads cookies. A dispatch queue writes the file, so the engine's thread waits for the
/// disk only at the engine's end.
final class CookieStore: ProcessExitObserver {
    private struct State {
        var table = CookieTable()
        /// Whether the engine has ended.
        var isClosed = false
        /// Whether the file lacks the last change.
        var isUnsaved = false
        /// Whether a write is queued.
        var isScheduled = false
        var writtenAt = MonotonicTime(nanoseconds: 0)
        /// The text in the file when this store last read or wrote it.
        var writtenText = ""
        /// This store's cookies that it had then. Others may have added theirs.
        var saved: [Cookie] = []
        var hasWarned = false
    }

    private let state = Mutex(State())
    let file: CookieFile?
    private let keepsSessions: Bool
    private let suffixes: PublicSuffixList
    private let warn: @Sendable (String) -> Void
    private let write: (@Sendable (_ path: String, _ text: String) -> CInt)?
    private let queue = DispatchQueue(label: "LATNetworking.cookies")

    /// The minimum time from a write to the next scheduled one, in milliseconds. ``flush()`` does not wait for it.
    private static let pause: Int64 = 1000

    /// Makes a store with the cookies of its file, which is read on the caller's thread.
    init(
        _ policy: EngineConfiguration.CookiePolicy, keepsSessions: Bool = false,
        warn: @escaping @Sendable (String) -> Void,
        write: (@Sendable (_ path: String, _ text: String) -> CInt)? = nil
    ) throws(NetworkError) {
        guard let suffixes = PublicSuffixList.shared else {
            throw NetworkError(
                .unsupported,
                message:
                    "cookies need libpsl (libpsl.so.5): without its list any site could set cookies for all of .com; "
                    + "install it (Debian: libpsl5), or set cookies = .off")
        }
        if case .file(let path) = policy { file = CookieFile(path: PathParts.absolute(path)) } else { file = nil }
        self.keepsSessions = keepsSessions
        self.suffixes = suffixes
        self.warn = warn
        self.write = write
        let text = try file?.read(warn) ?? ""
        let now = Date.now
        state.withLock { state in
            state.writtenText = text
            state.table = CookieTable(file: text, now: now)
            state.saved = kept(state.table, now)
        }
        if file != nil { ProcessEnd.register(self) }
    }

    // MARK: The engine's side

    /// Stores the cookie of a response's `Set-Cookie` line. Returns whether the jar has changed.
    func receive(_ line: UnsafeBufferPointer<UInt8>, from place: CookieTable.Place) -> Bool {
        let now = Date.now
        let text = String(
            decoding: line.dropFirst(Self.fieldName.count).prefix { $0 != 0x0D && $0 != 0x0A }, as: UTF8.self)
        guard let field = SetCookie(text, now: Int64(now.timeIntervalSince1970)) else { return false }
        return change { $0.receive(field, from: place, now: now, isPublicSuffix: suffixes.contains) } == true
    }

    /// Returns the `Cookie` field for a request; `nil` when no cookie matches.
    func field(for place: CookieTable.Place) -> String? {
        state.withLock { $0.table.field(for: place, now: .now) }
    }

    private static let fieldName = "set-cookie:".utf8

    static func setsCookie(_ line: UnsafeBufferPointer<UInt8>) -> Bool {
        line.count > fieldName.count && zip(line, fieldName).allSatisfy { $0 | 0x20 == $1 || $0 == $1 }
    }

    /// Closes the jar when the engine has ended, and writes the last changes. Waits for the disk.
    func close() {
        state.withLock { $0.isClosed = true }
        writeNow()
    }

    // MARK: The app's side

    /// The cookies that have not expired; `nil` when the engine has ended.
    var all: [Cookie]? {
        let table = state.withLock { $0.isClosed ? nil : $0.table }
        return table?.all(.now)
    }

    /// Changes the jar. Returns whether it has changed; `nil` when the engine has ended.
    func change(_ body: (inout CookieTable) -> Bool) -> Bool? {
        let (hasChanged, delay) = state.withLock { state -> (Bool?, Int64?) in
            guard !state.isClosed else { return (nil, nil) }
            guard body(&state.table) else { return (false, nil) }
            state.isUnsaved = true
            guard file != nil, !state.isScheduled else { return (true, nil) }
            state.isScheduled = true
            return (true, MonotonicTime.now.milliseconds(until: state.writtenAt + Self.pause))
        }
        if let delay { queue.asyncAfter(deadline: .now() + .milliseconds(Int(delay))) { self.save() } }
        return hasChanged
    }

    /// Writes unsaved changes to the file.
    func flush() async throws {
        let failure: NetworkError? = await withUnsafeContinuation { continuation in
            queue.async { continuation.resume(returning: self.save()) }
        }
        if let failure { throw failure }
    }

    // MARK: The file

    /// Like ``flush()``, but blocks the calling thread until the file is written.
    func writeNow() {
        guard file != nil else { return }
        queue.sync { _ = save() }
    }

    func processWillExit() { writeNow() }

    /// The cookies of a table as a file has them.
    private func kept(_ table: CookieTable, _ now: Date) -> [Cookie] {
        NetscapeCookie.cookies(NetscapeCookie.file(table.all(now), withSessions: true) ?? "")
    }

    /// Writes the changes into the file. Runs on the queue.
    @discardableResult
    private func save() -> NetworkError? {
        guard let file else { return nil }
        let unsaved = state.withLock { state -> (table: CookieTable, saved: [Cookie], text: String)? in
            state.isScheduled = false
            defer { state.isUnsaved = false }
            return state.isUnsaved ? (state.table, state.saved, state.writtenText) : nil
        }
        guard let unsaved else { return nil }
        let now = Date.now
        let changes = CookieChanges(
            from: unsaved.saved, to: kept(unsaved.table, now), withSessions: keepsSessions, now: now)
        guard !changes.isEmpty else { return nil }
        let (text, failure) = AtomicFile.exclusively(file.path) {
            merge(changes, into: file, unsaved.text, now)
        }
        let isFirstFailure = state.withLock { state -> Bool in
            state.writtenAt = .now
            if failure == nil {
                (state.writtenText, state.saved) = (text, changes.kept)
            } else {
                state.isUnsaved = true
            }
            defer { state.hasWarned = failure != nil }
            return failure != nil && !state.hasWarned
        }
        if let failure, isFirstFailure { warn("\(failure.message); cookies are kept in memory") }
        return failure
    }

    /// Puts changes into what the file has now, and replaces it. Other processes may have written it meanwhile.
    ///
    /// - Parameter known: the content of a pipe or a device, which is not read again.
    /// - Returns: the text in the file, and why it could not be written.
    private func merge(
        _ changes: CookieChanges, into file: CookieFile, _ known: String, _ now: Date
    ) -> (text: String, failure: NetworkError?) {
        var before = known
        if AtomicFile.isReplaceable(file.path) {
            do throws(NetworkError) {
                before = try file.read()
            } catch {
                return (known, NetworkError(.storage, message: error.message))
            }
        }
        var table = CookieTable(file: before, now: now)
        changes.apply(to: &table, now: now)
        let text =
            NetscapeCookie.file(table.all(now), withSessions: true)
            ?? (before.isEmpty ? "" : NetscapeCookie.emptyFile)
        guard text != before else { return (text, nil) }
        let code = write.map { $0(file.path, text) } ?? file.write(text)
        guard code != 0 else { return (text, nil) }
        let reason = "the cookie file \"\(file.path)\" cannot be written: \(SystemError(code: code).text)"
        return (known, NetworkError(.storage, message: "\(reason); check its folder and disk, then try again"))
    }
}

/// What a store has changed since it read or wrote the file. A pure value.
struct CookieChanges {
    /// The cookies of this store that the file has then.
    let kept: [Cookie]
    private let changed: [Cookie]
    private let removed: [Cookie]

    var isEmpty: Bool { changed.isEmpty && removed.isEmpty }

    /// A cookie that has expired is not one that was removed: another process may have a newer one.
    ///
    /// - Parameter withSessions: whether cookies without a date are kept. If not, those that the store found in the file are of
    ///   a session that has ended.
    init(from before: [Cookie], to after: [Cookie], withSessions: Bool, now: Date) {
        let old = Set(before)
        kept = after.filter { withSessions || $0.expires != nil }
        let names = Set(kept.map(\.identity))
        changed = kept.filter { !old.contains($0) }
        removed = before.filter { !names.contains($0.identity) && ($0.expires.map { $0 > now } ?? true) }
    }

    func apply(to table: inout CookieTable, now: Date) {
        for var cookie in removed {
            cookie.expires = .distantPast
            table.set(cookie, now: now)
        }
        for cookie in changed { table.set(cookie, now: now) }
    }
}

extension CookieTable {
    /// The cookies of a file.
    fileprivate init(file text: String, now: Date) {
        self.init()
        for cookie in NetscapeCookie.cookies(text) where cookie.meetsPrefixRules { set(cookie, now: now) }
    }
}

extension Cookie {
    /// What tells it from those that it does not replace.
    fileprivate var identity: Cookie {
        Cookie(name, "", domain: domain.lowercased(), includesSubdomains: includesSubdomains, path: path)
    }
}

/// The file of a cookie jar, always written whole.
struct CookieFile: Sendable {
    let path: String

    /// Returns the content of the file; empty when there is no file yet. Cookies are credentials, so a file that other
    /// users may read or write is restricted to its owner.
    ///
    /// - Parameter warn: Told when the permissions cannot be changed.
    func read(_ warn: (String) -> Void = { _ in }) throws(NetworkError) -> String {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        if file < 0 {
            var reason = errno
            if reason == ENOENT {
                if access(URL(filePath: path).deletingLastPathComponent().path, W_OK | X_OK) == 0 { return "" }
                // Why no file can be made in the folder.
                reason = errno
            }
            throw .invalidRequest(
                "the cookie file \"\(path)\" cannot be used: \(SystemError(code: reason).text); give a file in a folder "
                    + "that exists and may be written")
        }
        var facts = stat()
        if fstat(file, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG, facts.st_mode & 0o077 != 0,
            fchmod(file, 0o600) != 0
        {
            warn(
                "other users may read the cookie file \"\(path)\", and its permissions cannot be changed: "
                    + "\(SystemError(code: errno).text); run chmod 600 as its owner")
        }
        close(file)
        let text: String
        do {
            text = String(decoding: try Data(contentsOf: URL(filePath: path)), as: UTF8.self)
        } catch {
            throw NetworkError(
                .invalidRequest,
                message:
                    "the cookie file \"\(path)\" cannot be read (\(NetworkError.reason(of: error))); name another, "
                    + "or set cookies = .memory",
                underlying: error)
        }
        // The file is replaced later, so another one given by mistake would be lost.
        guard NetscapeCookie.isFile(text) else {
            throw .invalidRequest(
                "the cookie file \"\(path)\" is not in Netscape's format, so it is left as it is; name another file")
        }
        return text
    }

    /// Replaces the file atomically. Returns 0, or the system's error.
    func write(_ text: String) -> CInt {
        do throws(SystemError) {
            try AtomicFile.write(text.utf8, to: path, isShared: true)
            return 0
        } catch {
            return error.code
        }
    }
}
