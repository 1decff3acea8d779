import LATNetworking

/// Finds what somebody meant who mistyped a word of the command line. The words are few and known, so that more is taken
/// for a mistake than in a table.
enum NearestName {
    /// The name with the fewest typing mistakes between, `nil` when all are too far away to be meant.
    static func of(_ text: String, among names: [String]) -> String? {
        let candidates = names.map { (name: $0, distance: distance(text, $0)) }
        guard let best = candidates.min(by: { $0.distance < $1.distance }) else { return nil }
        return best.distance <= max(1, min(3, best.name.filter { $0 != "-" }.count / 3)) ? best.name : nil
    }

    /// How many letters have to be added, left out, replaced or swapped with their neighbour.
    static func distance(_ lhs: String, _ rhs: String) -> Int {
        DomainTableFormat.NearestName.distance(Array(lhs.lowercased()), Array(rhs.lowercased()))
    }
}
