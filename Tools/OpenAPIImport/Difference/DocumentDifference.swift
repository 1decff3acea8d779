import HTTPCore

/// What a document changes in another, in the words of the generated code: calls, their members, and those of the types that
/// they send and receive.
package struct DocumentDifference {
    /// A change of one call or type.
    package struct Change: Hashable {
        /// The name of the call or type.
        package let subject: String
        package let text: String
        /// Whether a program that was made for the old document may fail.
        package let isBreaking: Bool
        /// The rows of the calls that it concerns.
        package let rows: [String]
    }

    package private(set) var changes: [Change] = []

    package init(from old: OpenAPIImporter, to new: OpenAPIImporter) throws(ImportProblem) {
        let (old, new) = (try Side(old), try Side(new))
        compareCalls(old, new)
        compareTypes(old, new)
    }

    /// What is compared of one document.
    private struct Side {
        var calls: [(key: String, plan: EntityPlan)] = []
        var types: [String: Declaration] = [:]
        /// The rows of the calls that send a type, and of those that receive it.
        var senders: [String: [String]] = [:]
        var receivers: [String: [String]] = [:]

        init(_ importer: OpenAPIImporter) throws(ImportProblem) {
            for plan in try importer.generate(.all).plans {
                let head = plan.operation.head
                calls.append((head.id ?? "\(head.method) \(head.path)", plan))
                walk(plan.properties.flatMap(\.property.type.declarations), plan.row, \.senders)
                walk(
                    plan.model.declarations + plan.failures.flatMap(\.type.declarations)
                        + (plan.streamType?.declarations ?? []), plan.row, \.receivers)
            }
        }

        private mutating func walk(
            _ roots: [Declaration], _ row: String, _ list: WritableKeyPath<Side, [String: [String]]>
        ) {
            var (next, seen): ([Declaration], Set<Declaration>) = (roots, [])
            while let declaration = next.popLast() {
                guard seen.insert(declaration).inserted else { continue }
                types[declaration.name] = declaration
                self[keyPath: list][declaration.name, default: []].append(row)
                next += declaration.declarations
            }
        }
    }

    private mutating func add(_ subject: String, _ text: String, breaks: Bool, _ rows: [String]) {
        changes.append(Change(subject: subject, text: text, isBreaking: breaks, rows: rows))
    }

    // MARK: Calls

    private mutating func compareCalls(_ old: Side, _ new: Side) {
        let newCalls = Dictionary(new.calls.map { ($0.key, $0.plan) }) { first, _ in first }
        let oldKeys = Set(old.calls.map(\.key))
        for (key, before) in old.calls {
            guard let after = newCalls[key] else {
                add(before.name, "the call is gone", breaks: true, [before.row])
                continue
            }
            compare(before, after)
        }
        for (key, plan) in new.calls where !oldKeys.contains(key) {
            add(plan.name, "the call is new: \(plan.operation.head.method) \(plan.path)", breaks: false, [plan.row])
        }
    }

    private mutating func compare(_ before: EntityPlan, _ after: EntityPlan) {
        let (name, rows) = (before.name, [before.row])
        let (oldHead, newHead) = (before.operation.head, after.operation.head)
        if oldHead.method != newHead.method || before.path != after.path {
            add(name, "\(oldHead.method) \(before.path) is \(newHead.method) \(after.path)", breaks: true, rows)
        }
        let settings = (RowSettings.row(before, domain: ""), RowSettings.row(after, domain: ""))
        for key in Set((settings.0.members?.names ?? []) + (settings.1.members?.names ?? [])).sorted() {
            guard !["method", "path"].contains(key), settings.0[key]?.json != settings.1[key]?.json else { continue }
            let text = settings.1[key].map { "\(key) of the row is \(JSON5Text.inline($0))" } ?? "the row has no \(key)"
            add(name, text, breaks: false, rows)
        }
        compare(
            before.properties.map(\.property), after.properties.map(\.property), name, sent: rows, received: [])
        let models = (before.model.text, after.model.text)
        if models.0 != models.1 || before.isModelOptional != after.isModelOptional {
            let mark = (before.isModelOptional ? "?" : "", after.isModelOptional ? "?" : "")
            add(name, "the model is \(models.1)\(mark.1), was \(models.0)\(mark.0)", breaks: true, rows)
        }
        if !before.operation.isDeprecated, after.operation.isDeprecated { add(name, "deprecated", breaks: false, rows) }
    }

    // MARK: Types

    private mutating func compareTypes(_ old: Side, _ new: Side) {
        for (name, before) in old.types.sorted(by: { $0.key < $1.key }) {
            // A type that is gone shows in what named it.
            guard let after = new.types[name] else { continue }
            let (sent, received) = (old.senders[name] ?? [], old.receivers[name] ?? [])
            switch (before.kind, after.kind) {
            case (.object, .object):
                compare(before.properties, after.properties, name, sent: sent, received: received)
            case (.openEnum(let before), .openEnum(let after)):
                let values = (Set(before.cases.map(\.value)), Set(after.cases.map(\.value)))
                for value in values.1.subtracting(values.0).sorted() {
                    add(name, "the value \(value) is new", breaks: false, sent + received)
                }
                for value in values.0.subtracting(values.1).sorted() {
                    add(name, "the value \(value) is gone", breaks: !sent.isEmpty, sent + received)
                }
            case (.union(let before), .union(let after)):
                let cases = (Set(before.variants.map(\.type.text)), Set(after.variants.map(\.type.text)))
                for type in cases.1.subtracting(cases.0).sorted() {
                    add(name, "it may be \(type)", breaks: false, sent + received)
                }
                for type in cases.0.subtracting(cases.1).sorted() {
                    add(name, "it is \(type) no more", breaks: true, sent + received)
                }
            default: add(name, "it is another kind of type", breaks: true, sent + received)
            }
        }
    }

    /// - Parameters:
    ///   - sent: the rows of the calls that send the members.
    ///   - received: the rows of the calls that receive them.
    private mutating func compare(
        _ before: [Property], _ after: [Property], _ subject: String, sent: [String], received: [String]
    ) {
        let rows = sent + received.filter { !sent.contains($0) }
        let later = Dictionary(after.map { ($0.member, $0) }) { first, _ in first }
        let known = Set(before.map(\.member))
        for property in before {
            guard let other = later[property.member] else {
                add(subject, "\(property.member) is gone", breaks: true, rows)
                continue
            }
            if property.type.text != other.type.text {
                add(subject, "\(property.member) is \(other.type.text), was \(property.type.text)", breaks: true, rows)
            }
            if property.isOptional != other.isOptional {
                let text = "\(property.member) is \(other.isOptional ? "optional" : "required") now"
                add(subject, text, breaks: other.isOptional ? !received.isEmpty : !sent.isEmpty, rows)
            }
        }
        for property in after where !known.contains(property.member) {
            let isNeeded = !property.isOptional && property.constant == nil && !sent.isEmpty
            add(subject, "\(property.member) is new\(isNeeded ? ", and required" : "")", breaks: isNeeded, rows)
        }
    }
}
