import LATNetworking

/// One question, and how each side answers it in a word or two.
struct Probe: Sendable {
    /// The row of Documentation/urlsession-parity.md.
    let row: Int
    let question: String
    let ours: @Sendable () async throws -> String
    let theirs: @Sendable () async throws -> String

    /// What came of it; an error is an answer too. A side that does not answer within 15 s hangs.
    static func answer(_ body: @escaping @Sendable () async throws -> String) async -> String {
        await withTaskGroup(of: String.self) { group in
            group.addTask {
                do {
                    return try await body()
                } catch {
                    return "error: \(brief(error))"
                }
            }
            group.addTask {
                try? await Task.sleep(for: .seconds(15))
                return "no answer in 15 s"
            }
            let first = await group.next() ?? ""
            group.cancelAll()
            return first
        }
    }
}
