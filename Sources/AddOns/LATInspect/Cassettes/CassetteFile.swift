internal import FoundationEssentials
internal import Glibc
internal import HTTPCore
internal import Platform
internal import Synchronization

/// The file of a cassette. It is also written when this object is released and when the process ends.
final class CassetteFile: Sendable {
    let content: CassetteContent

    init(_ content: CassetteContent) {
        self.content = content
        ProcessEnd.register(content, isKept: true)
    }

    deinit {
        content.saveOrWarn()
        ProcessEnd.remove(content)
    }
}

/// What was read from the file of a cassette, and what is to be written.
///
/// It is not part of ``CassetteFile``, because the process may end while another thread releases that object.
/// `ProcessEnd` keeps the content alive, and waits until the file is written.
final class CassetteContent: ProcessExitObserver, Sendable {
    private struct State {
        var playback: CassettePlayback
        /// Whether everything that was recorded is in the file.
        var isSaved = true
        /// The content of the file as this object knows it; `nil` without one.
        var known: Data?
    }

    /// The largest number of a stand-in in the file.
    let highestStandIn: Int
    private let path: String
    private let warn: @Sendable (String) -> Void
    private let state: Mutex<State>
    /// Held while a file is compared and written.
    private static let writing = Mutex(())

    init(
        _ path: String, mode: Cassette.Mode, matching: Cassette.Matching, warn: @escaping @Sendable (String) -> Void
    ) throws(NetworkError) {
        self.path = path
        self.warn = warn
        let data = try Self.data(path)
        // The mode `all` does not parse the file, so a damaged one can be recorded again.
        let found = mode == .all ? nil : try data.map { data throws(NetworkError) in try Self.read(data, path) }
        highestStandIn = found?.highestStandIn ?? 0
        state = Mutex(
            State(playback: CassettePlayback(found?.entries, mode: mode, matching: matching), known: data))
    }

    func withPlayback<Value: Sendable>(_ body: (inout CassettePlayback) -> Value) -> Value {
        state.withLock { body(&$0.playback) }
    }

    func finish(_ number: Int, _ entry: CassetteEntry) {
        state.withLock { state in
            state.playback.finish(number, entry)
            state.isSaved = false
        }
    }

    /// The folder of the bodies beside a file.
    private static func bodyFolder(_ path: String) -> String {
        (path.hasSuffix(".yaml") ? String(path.dropLast(5)) : path) + ".bodies"
    }

    private static func isLink(_ path: String) -> Bool {
        (try? FileManager.default.destinationOfSymbolicLink(atPath: path)) != nil
    }

    /// `nil` when there is no file.
    private static func data(_ path: String) throws(NetworkError) -> Data? {
        do { return try content(of: path) } catch {
            throw NetworkError(
                .storage,
                message:
                    "the cassette \(path) cannot be read (\(NetworkError.reason(of: error))); check its permissions",
                underlying: error)
        }
    }

    private static func read(
        _ data: Data, _ path: String
    ) throws(NetworkError) -> (entries: [CassetteEntry], highestStandIn: Int) {
        guard let text = String(validating: data, as: UTF8.self) else {
            throw NetworkError(
                .storage, message: "the cassette \(path) is not UTF-8; record it again with the mode all")
        }
        let bodies = bodyFolder(path)
        do throws(YAMLProblem) {
            var highest = StandIns.highest(in: data)
            let reader = CassetteReader { name in
                let body = try content(of: "\(bodies)/\(name)")
                highest = max(highest, body.map(StandIns.highest) ?? 0)
                return body
            }
            return (try reader.entries(text), highest)
        } catch {
            throw NetworkError(.storage, message: "\(path):\(error.line): \(error.message)")
        }
    }

    /// The content of a file; `nil` when there is none.
    private static func content(of path: String) throws -> Data? {
        FileManager.default.fileExists(atPath: path) ? try Data(contentsOf: URL(filePath: path)) : nil
    }

    /// Writes what was recorded, if that is not in the file yet.
    func write() throws(NetworkError) { try Self.writing.withLock { _ throws(NetworkError) in try writeChanges() } }

    private func writeChanges() throws(NetworkError) {
        let work: (entries: [CassetteEntry], known: Data?)? = state.withLock { state in
            guard !state.isSaved, state.playback.hasAdded else { return nil }
            state.isSaved = true
            return (state.playback.entries, state.known)
        }
        guard let (entries, known) = work else { return }
        let output = CassetteWriter.write(entries, recorded: Date().formatted(.iso8601))
        do {
            if let present = try Self.data(path), present != known {
                throw NetworkError(
                    .storage,
                    message: "another cassette has written it since this one read it, and its entries would be lost; "
                        + "record one after the other, or give each a file of its own")
            }
            let bodies = Self.bodyFolder(path)
            if Self.isLink(bodies) {
                throw NetworkError(
                    .storage, message: "\(bodies) is a symbolic link; remove it, or give the cassette another name")
            }
            try FileManager.default.createDirectory(
                atPath: PathParts(path).folder, withIntermediateDirectories: true)
            if !output.bodies.isEmpty {
                try FileManager.default.createDirectory(atPath: bodies, withIntermediateDirectories: true)
            }
            for (name, data) in output.bodies {
                try AtomicFile.write(data, to: "\(bodies)/\(name)", mode: 0o644, isShared: false)
            }
            let text = Data(output.text.utf8)
            try AtomicFile.write(text, to: path, mode: 0o644)
            state.withLock { $0.known = text }
            // Removes the bodies of an earlier recording. Whatever has another name is not of a cassette.
            for name in (try? FileManager.default.contentsOfDirectory(atPath: bodies)) ?? []
            where output.bodies[name] == nil && CassetteWriter.isBodyName(name) {
                // A folder is not removed.
                unlink("\(bodies)/\(name)")
            }
        } catch {
            state.withLock { $0.isSaved = false }
            throw NetworkError(
                .storage, message: "the cassette \(path) cannot be written: \(NetworkError.reason(of: error))",
                underlying: error)
        }
    }

    func processWillExit() { saveOrWarn() }

    func saveOrWarn() {
        do throws(NetworkError) { try write() } catch {
            warn(error.message)
            guard let path = ProcessInfo.processInfo.environment[Cassette.failurePipe] else { return }
            let pipe = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
            _ = Array("!".utf8).withUnsafeBytes { AtomicFile.writeAll(pipe, $0) }
            close(pipe)
        }
    }
}
