internal import FoundationEssentials
internal import Platform

// What Redis has under a primary key.
extension FleetStore {
    /// A variant as it is in Redis.
    struct Variant {
        let field: String
        let head: FleetEntryHead
        let record, body, lastUse: RedisValue?
    }

    /// What was found of a variant.
    private struct VariantFields {
        var head, record, body, lastUse: RedisValue?
    }

    /// The valid variants under a primary key; `nil` when Redis fails, or has no entry or no epoch.
    func lookUp(_ primaryKey: String, _ budget: RedisBudget) async -> (variants: [Variant], ruleCount: Int)? {
        let keys = [coding.entryKey(primaryKey), coding.rulesKey]
        let start = MonotonicTime.now
        // The entry is read before what it depends on, so that the latter is not older.
        let commands = [RedisCommand("HGETALL", [.text(keys[0])])] + rulesCommands
        let replies = await asked(budget) { () throws(FleetError) in
            let replies = try await fleet.redis.pipeline(commands, budget)
            // A key of another type counts as no entry.
            for reply in replies.dropFirst() { _ = try reply.checked(FleetCacheScripts.lookUp.name) }
            return replies
        }
        guard let replies, replies.count == 3, let now = readClock(replies[2], since: start) else { return nil }
        guard let fields = replies[0].array, !fields.isEmpty, let rules = replies[1].array, rules.count == 3,
            let epoch = rules[0].text, let ruleCount = rules[1].integer
        else { return nil }
        let variants = Self.variants(fields).filter { $0.head.epoch == epoch && $0.head.end > now / 1_000 }
        let mark = rules[2].text
        if variants.allSatisfy({ $0.head.mark == mark ?? "" }) { return (variants, Int(ruleCount)) }
        // A generation was removed since one of the variants was stored. The script returns those that are still valid.
        let reply = await ask(FleetCacheScripts.lookUp, keys, [.text(coding.generationPrefix)], budget)
        guard let fields = reply?.array, fields.count >= 2, let count = fields[1].integer else { return nil }
        let living = stride(from: 2, to: fields.count - 4, by: 5).compactMap { at in
            Self.variant(
                fields[at].text,
                VariantFields(
                    head: fields[at + 1], record: fields[at + 2], body: fields[at + 3], lastUse: fields[at + 4]))
        }
        return (living, Int(count))
    }

    private static func variants(_ fields: [RedisValue]) -> [Variant] {
        var found: [String: VariantFields] = [:]
        for index in stride(from: 0, to: fields.count - 1, by: 2) {
            guard case .data(let name) = fields[index], let kind = name.first else { continue }
            let field = name.count == 1 ? "" : String(decoding: name.dropFirst(), as: UTF8.self)
            // The first letter of the field's name is the kind of its value.
            switch kind {
            case UInt8(ascii: "h"): found[field, default: VariantFields()].head = fields[index + 1]
            case UInt8(ascii: "m"): found[field, default: VariantFields()].record = fields[index + 1]
            case UInt8(ascii: "b"): found[field, default: VariantFields()].body = fields[index + 1]
            case UInt8(ascii: "t"): found[field, default: VariantFields()].lastUse = fields[index + 1]
            default: break
            }
        }
        return found.compactMap { variant($0, $1) }
    }

    /// - Returns: `nil` when it is of another format.
    private static func variant(_ field: String?, _ found: VariantFields) -> Variant? {
        guard let field, let head = found.head?.data.flatMap({ FleetEntryHead($0) }) else { return nil }
        return Variant(field: field, head: head, record: found.record, body: found.body, lastUse: found.lastUse)
    }
}
