import Cryptography
import FoundationEssentials
internal import HTTPCore
import Platform
import Synchronization

/// A list that is needed for a certificate.
struct RevocationNeed: Hashable, Sendable {
    /// What a list is kept for, so that a forged list is never in the way of a genuine one.
    struct Source: Hashable, Sendable {
        let url: String
        /// The certificate in DER of the authority that must have signed it.
        let authority: [UInt8]
    }

    let source: Source
    /// In DER.
    let certificate: [UInt8]
}

/// The revocation lists (CRLs) that an engine has fetched, each until its `nextUpdate`, and only if its authority has signed
/// it; and those of files. They belong to no store of certificates: ``RevocationCheck`` asks for them when a chain is verified.
final class RevocationLists: Sendable {
    private struct State {
        var entries: [RevocationNeed.Source: RevocationEntry] = [:]
        var fetches: [RevocationNeed.Source: Task<Void, Never>] = [:]
        /// The origins that were warned about.
        var warned: Set<String> = []
    }

    private struct Weak { weak var transport: (any Transport & AnyObject)? }
    private struct WeakFile { weak var file: RevocationFile? }

    private let state = Mutex(State())
    private let owner = Mutex(Weak())
    private let unchecked = Atomic(0)
    /// The files by path. Its lock is held while a new file is read, so that it is read once.
    private let files = Mutex<[String: WeakFile]>([:])
    /// One list is parsed at a time, because that takes much memory.
    let parsing = Turns()
    private let limits: Limits

    struct Limits {
        /// The most bytes of all lists. The oldest ones are dropped first.
        var size = 32 << 20
        /// Servers choose the URLs, so their number is limited.
        var count = 256
        /// The most time of a fetch, with all its waits.
        var time = Duration.seconds(15)
    }

    /// The largest list, in bytes. Those of public authorities have up to some 10 MB.
    private static let sizeLimit: Int64 = 16 << 20
    /// The most lists of one authority that one URL may bring, since each is verified for each certificate.
    private static let listLimit = 16

    init(limits: Limits = Limits()) { self.limits = limits }

    /// The number of certificates that were accepted without being checked.
    var uncheckedCount: Int { unchecked.load(ordering: .relaxed) }

    /// Sets the transport that fetches.
    func fetch(by transport: any Transport & AnyObject) { owner.withLock { $0.transport = transport } }

    /// The lists of a file, which all who name it share.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a file that cannot be used.
    func file(_ path: String, warn: @escaping @Sendable (String) -> Void) throws(NetworkError) -> RevocationFile {
        let path = PathParts.absolute(path)
        return try files.withLock { files throws(NetworkError) in
            if let known = files[path]?.file { return known }
            let file = try RevocationFile(path, warn: warn)
            files = files.filter { $0.value.file != nil }
            files[path] = WeakFile(file: file)
            return file
        }
    }

    /// What is known of a list.
    func entry(_ source: RevocationNeed.Source) -> RevocationEntry {
        state.withLock { $0.entries[source] } ?? RevocationEntry()
    }

    /// Starts to fetch the lists that are due, each once for all who want it. A task ends when its list is there or has
    /// failed, and is not cancelled, since others may wait for it too.
    @discardableResult
    func fetch(_ needs: [RevocationNeed], at now: Date = .now) -> [Task<Void, Never>] {
        state.withLock { state in
            let due = needs.filter { state.entries[$0.source]?.isDue(at: now) ?? true }
            for (url, needs) in Dictionary(grouping: due, by: \.source.url) {
                let new = needs.filter { state.fetches[$0.source] == nil }
                guard !new.isEmpty else { continue }
                let task = Task.detached { await self.load(url, new) }
                for need in new { state.fetches[need.source] = task }
            }
            return due.compactMap { state.fetches[$0.source] }
        }
    }

    private func load(_ url: String, _ needs: [RevocationNeed]) async {
        let answer = await answer(url)
        var results: [RevocationNeed.Source: Result<[RevocationList], Failure>] = [:]
        for need in needs {
            results[need.source] = answer?.flatMap { Self.usable($0, for: need, at: .now) }
        }
        state.withLock { state in
            for need in needs {
                state.fetches[need.source] = nil
                switch results[need.source] {
                case .success(let lists)?: state.entries[need.source, default: RevocationEntry()].take(lists)
                case .failure(let failure)?:
                    state.entries[need.source, default: RevocationEntry()].fail(failure.reason)
                case nil: break
                }
            }
            makeRoom(in: &state, besides: Set(needs.map(\.source)))
        }
    }

    /// The lists that say something about the certificate. Others would displace them, although their authority has signed
    /// them too: one with another scope, or a delta list. The engine's thread finds the findings there.
    private static func usable(
        _ lists: [RevocationList], for need: RevocationNeed, at now: Date
    ) -> Result<[RevocationList], Failure> {
        let authority = need.source.authority
        let signed = RevocationRule.newestFirst(RevocationList.signed(lists, by: authority), at: now)
        guard !signed.isEmpty else { return .failure(Failure(reason: "sent one that is not signed by it")) }
        var (usable, fault): ([RevocationList], String?) = ([], nil)
        for list in signed where usable.count < listLimit {
            switch RevocationList.findings(of: [list], about: need.certificate, by: authority).first?.finding {
            case .good?, .revoked?: usable.append(list)
            case .unusable(let reason)?: fault = fault ?? reason
            case nil: break
            }
        }
        guard usable.isEmpty else { return .success(usable) }
        return .failure(Failure(reason: "sent one that \(fault ?? "cannot be read")"))
    }

    private func makeRoom(in state: inout State, besides new: Set<RevocationNeed.Source>) {
        var size = state.entries.values.reduce(0) { $0 + $1.size }
        guard size > limits.size || state.entries.count > limits.count else { return }
        let oldest = state.entries.filter { !new.contains($0.key) }
            .sorted { $0.value.time ?? .distantPast < $1.value.time ?? .distantPast }
        for (source, entry) in oldest where size > limits.size || state.entries.count > limits.count {
            state.entries[source] = nil
            size -= entry.size
        }
    }

    /// Why a fetch brought no list: the end of a sentence whose subject is the server.
    private struct Failure: Error { let reason: String }

    /// Fetches lists; `nil` when the engine ends, which says nothing about their server.
    private func answer(_ url: String) async -> Result<[RevocationList], Failure>? {
        guard let transport = owner.withLock({ $0.transport }) else { return nil }
        let task = Task.detached { await self.answer(url, transport) }
        // The timeout of a request begins when it has a connection.
        let timer = Task { [limits] in
            try await Task.sleep(for: limits.time)
            task.cancel()
        }
        defer { timer.cancel() }
        let answer = await task.value
        return answer == nil && task.isCancelled
            ? .failure(Failure(reason: "sent nothing within \(limits.time)")) : answer
    }

    private func answer(_ url: String, _ transport: any Transport) async -> Result<[RevocationList], Failure>? {
        var request = HTTPRequest("GET", url)
        request.timeout = limits.time
        request.maxBodySize = Self.sizeLimit
        request.headers["Cookie"] = nil as String?
        request.context.isAnonymous = true
        do {
            let response = try await transport.send(request)
            guard response.status == 200 else {
                return .failure(Failure(reason: "answered with status \(response.status)"))
            }
            let data = response.body.data ?? Data()
            var lists: [RevocationList] = []
            try await parsing.run { lists = try RevocationList.read(data) }
            return .success(lists)
        } catch let problem as CertificateFile.Problem {
            return .failure(Failure(reason: "sent no revocation list: the answer \(problem.reason)"))
        } catch let error as NetworkError where error.kind != .cancelled && error.kind != .shutDown {
            return .failure(Failure(reason: "sent nothing: \(error.message)"))
        } catch {
            return nil
        }
    }

    /// Counts certificates that were accepted without being checked.
    ///
    /// - Returns: Whether they are the first of their origin.
    func noteUnchecked(_ count: Int, _ origin: String) -> Bool {
        unchecked.add(count, ordering: .relaxed)
        return state.withLock { state in
            if state.warned.count >= limits.count { state.warned = [] }
            return state.warned.insert(origin).inserted
        }
    }
}
