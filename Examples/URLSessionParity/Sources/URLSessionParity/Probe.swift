import LATNetworking

/// One question with the answer of each side in a few words.
struct Probe: Sendable {
    /// The row in Documentation/urlsession-parity.md.
    let row: Int
    let question: String
    let ours: @Sendable () async throws -> String
    let theirs: @Sendable () async throws -> String

    /// Runs a side and returns its answer; an error is an answer too. After 15 s the side counts as hanging.
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
                return "no response in 15 s"
            }
            let first = await group.next() ?? ""
            group.cancelAll()
            return first
        }
    }
}
