import HTTPCore
import Synchronization

/// The present URL of a download, and the one request for another that all its connections share.
final class LinkKeeper: Sendable {
    /// A URL, and which one in a row it is.
    struct Link: Sendable {
        let url: String
        let generation: Int
    }

    private struct State {
        var link: Link
        var renewal: Task<Link, any Error>?
        /// Whether bytes have come since the last renewal.
        var hasProven = true
    }

    private let state: Mutex<State>
    private let refresh: LinkRefresh?

    init(url: String, refresh: LinkRefresh?) {
        state = Mutex(State(link: Link(url: url, generation: 0)))
        self.refresh = refresh
    }

    var link: Link { state.withLock(\.link) }

    /// Bytes have come: another URL may be asked for when this one is refused.
    func prove() {
        state.withLock { state in
            if !state.hasProven { state.hasProven = true }
        }
    }

    /// Whether a refusal may be helped by another URL.
    static func mayHelp(_ status: Int) -> Bool { [401, 403, 404, 410].contains(status) }

    /// Another URL in place of one that was refused.
    ///
    /// - Returns: `nil` when there is none to be had.
    /// - Throws: ``NetworkError/Kind/provider`` with what the hook threw.
    func renew(_ refused: Link, _ refusal: NetworkError) async throws -> Link? {
        guard let refresh else { return nil }
        let renewal = state.withLock { state -> Task<Link, any Error>? in
            if state.link.generation > refused.generation {
                let link = state.link
                return Task { link }
            }
            if let renewal = state.renewal { return renewal }
            guard state.hasProven else { return nil }
            state.hasProven = false
            // Not on the threads that write files: it is the app's code.
            let renewal = Task.detached { [self] in
                do {
                    let link = Link(url: try await refresh(refusal), generation: refused.generation + 1)
                    settle(link)
                    return link
                } catch {
                    settle(nil)
                    throw NetworkError(
                        .provider, message: "the hook for a new link threw: \(error); what is there is kept",
                        request: refusal.request, response: refusal.response, underlying: error)
                }
            }
            state.renewal = renewal
            return renewal
        }
        guard let renewal else { return nil }
        return try await withTaskCancellationHandler {
            try await renewal.value
        } onCancel: {
            renewal.cancel()
        }
    }

    private func settle(_ link: Link?) {
        state.withLock { state in
            if let link { state.link = link }
            state.renewal = nil
        }
    }
}
