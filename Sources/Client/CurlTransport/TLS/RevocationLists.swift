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
/// it. They belong to no store of certificates: ``RevocationCheck`` asks for them when a chain is verified.
final class RevocationLists: Sendable {
    private struct State {
        var entries: [RevocationNeed.Source: RevocationEntry] = [:]
        var fetches: [RevocationNeed.Source: Task<Void, Never>] = [:]
        /// The origins that were warned about.
        var warned: Set<String> = []
    }

    private struct Weak { weak var transport: CurlTransport? }

    private let state = Mutex(State())
    private let owner = Mutex(Weak())
    private let unchecked = Atomic(0)
    /// One list is parsed at a time, because that takes much memory.
    private let parsing = Turns()

    /// The largest list, in bytes. Those of public authorities have up to some 10 MB.
    private static let sizeLimit: Int64 = 16 << 20
    /// The most bytes of all lists. The oldest ones are dropped first.
    private static let totalLimit = 32 << 20
    /// Servers choose the URLs, so their number is limited.
    private static let countLimit = 256

    /// The number of certificates that were accepted without being checked.
    var uncheckedCount: Int { unchecked.load(ordering: .relaxed) }

    /// Sets the transport that fetches.
    func fetch(by transport: CurlTransport) { owner.withLock { $0.transport = transport } }

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
            results[need.source] = answer?.flatMap { lists in
                let signed = RevocationList.signed(lists, by: need.source.authority)
                // The engine's thread finds the result there.
                _ = RevocationList.findings(of: signed, about: need.certificate, by: need.source.authority)
                return signed.isEmpty
                    ? .failure(Failure(reason: "sent one that is not signed by it")) : .success(signed)
            }
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
            Self.makeRoom(in: &state, besides: Set(needs.map(\.source)))
        }
    }

    private static func makeRoom(in state: inout State, besides new: Set<RevocationNeed.Source>) {
        var size = state.entries.values.reduce(0) { $0 + $1.size }
        guard size > totalLimit || state.entries.count > countLimit else { return }
        let oldest = state.entries.filter { !new.contains($0.key) }
            .sorted { $0.value.time ?? .distantPast < $1.value.time ?? .distantPast }
        for (source, entry) in oldest where size > totalLimit || state.entries.count > countLimit {
            state.entries[source] = nil
            size -= entry.size
        }
    }

    /// Why a fetch brought no list: the end of a sentence whose subject is the server.
    private struct Failure: Error { let reason: String }

    /// Fetches lists; `nil` when the engine ends, which says nothing about their server.
    private func answer(_ url: String) async -> Result<[RevocationList], Failure>? {
        guard let transport = owner.withLock({ $0.transport }) else { return nil }
        var request = HTTPRequest("GET", url)
        request.timeout = .seconds(15)
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
            if state.warned.count >= Self.countLimit { state.warned = [] }
            return state.warned.insert(origin).inserted
        }
    }
}
