internal import FoundationEssentials

// What an outbox keeps of a call, as JSON. Hooks, credentials and the identity of objects cannot be kept.

extension RequestOptions {
    /// The settings as JSON, headers apart, and back. Settings that only matter to a call that its caller waits for, such as
    /// its retries and its cache policy, are left out.
    private struct Kept: Sendable {
        let name: String
        let write: @Sendable (Values) -> JSONValue?
        let read: @Sendable (inout Values, JSONValue) -> Void

        private static func value<Value>(
            _ name: String, _ path: WritableKeyPath<Values, Value?> & Sendable,
            _ write: @escaping @Sendable (Value) -> JSONValue, _ read: @escaping @Sendable (JSONValue) -> Value?
        ) -> Kept {
            Kept(name: name, write: { $0[keyPath: path].map(write) }, read: { $0[keyPath: path] = read($1) })
        }

        /// A choice that is automatic, off or a name.
        private static func choice<Choice: Equatable & Sendable>(
            _ name: String, _ path: WritableKeyPath<Values, Choice> & Sendable, _ automatic: Choice, _ off: Choice,
            _ nameOf: @escaping @Sendable (Choice) -> String?, _ named: @escaping @Sendable (String) -> Choice
        ) -> Kept {
            Kept(name: name) { values in
                let choice = values[keyPath: path]
                return choice == automatic ? nil : choice == off ? false : nameOf(choice).map(JSONValue.string)
            } read: {
                $0[keyPath: path] = $1.string.map(named) ?? ($1.bool == false ? off : automatic)
            }
        }

        private static func time(_ name: String, _ path: WritableKeyPath<Values, Duration?> & Sendable) -> Kept {
            value(name, path) {
                .double($0 / .milliseconds(1))
            } _: {
                $0.double.map { .milliseconds($0) }
            }
        }

        private static func flag(_ name: String, _ path: WritableKeyPath<Values, Bool?> & Sendable) -> Kept {
            value(name, path) {
                .bool($0)
            } _: {
                $0.bool
            }
        }

        private static func number(_ name: String, _ path: WritableKeyPath<Values, Int64?> & Sendable) -> Kept {
            value(name, path) {
                .int($0)
            } _: {
                $0.int64
            }
        }

        private static func text(_ name: String, _ path: WritableKeyPath<Values, String?> & Sendable) -> Kept {
            value(name, path) {
                .string($0)
            } _: {
                $0.string
            }
        }

        static let all: [Kept] = [
            time("timeout", \.timeout), time("connectTimeout", \.connectTimeout), time("idleTimeout", \.idleTimeout),
            time("deadline", \.deadline), flag("replacesGlobalHeaders", \.replacesGlobalHeaders),
            flag("decompresses", \.decompresses), flag("ignoresLimits", \.ignoresLimits),
            number("maxBodySize", \.maxBodySize), number("maxReceiveRate", \.maxReceiveRate),
            number("maxSendRate", \.maxSendRate), text("unixSocketPath", \.unixSocketPath), text("tag", \.tag),
            value("maxConnectionsPerHost", \.maxConnectionsPerHost) {
                .int(Int64($0))
            } _: {
                $0.int
            },
            value("priority", \.priority) {
                .int(Int64($0.rawValue))
            } _: {
                $0.int.flatMap(RequestPriority.init)
            },
            value("parameterEncoding", \.parameterEncoding) {
                .string($0.rawValue)
            } _: {
                $0.string.flatMap(ParameterEncoding.init)
            },
            // The manager looks a coding of the app's own up by its name.
            value("contentCoding", \.contentCoding) {
                .string($0.name)
            } _: {
                $0.string.map { ContentCoding($0) }
            },
            value("acceptedStatuses", \.acceptedStatuses) {
                .array($0.sorted().map { .int(Int64($0)) })
            } _: {
                $0.array.map { Set($0.compactMap(\.int)) }
            },
            choice("authenticator", \.authenticator, .automatic, .off) {
                if case .named(let name) = $0 { name } else { nil }
            } _: {
                .named($0)
            },
            choice("signer", \.signer, .automatic, .off) {
                if case .named(let name) = $0 { name } else { nil }
            } _: {
                .named($0)
            },
            choice("sealing", \.sealing, .automatic, .unsealed) {
                if case .sealed(let name) = $0 { name } else { nil }
            } _: {
                .sealed(by: $0)
            },
        ]

        /// The settings that have no meaning for a request that is sent later, and those that are kept elsewhere.
        static let leftOut: Set<String> = [
            "headers", "cachePolicy", "cachesUnsafeMethods", "cachePartition", "coding", "retryPolicy", "retries",
            "waitsForConnectivity", "streamsBody", "duplicates", "isBarrier", "traceParent", "observers", "userInfo",
        ]
    }

    /// The settings as JSON; see ``init(kept:)``.
    ///
    /// - Throws: ``NetworkError/Kind/unsupported`` for a setting that cannot be kept.
    package func kept() throws(NetworkError) -> JSONValue? {
        guard !isStandard else { return nil }
        var object: [String: JSONValue] = [:]
        for setting in Kept.all { object[setting.name] = setting.write(storage.values) }
        if !self.userInfo.isEmpty { object["userInfo"] = .object(self.userInfo) }
        let lost = OptionKey.all.first { key in
            key.isSet(in: self) && object[key.name] == nil && !Kept.leftOut.contains(key.name)
        }
        guard let lost else { return object.isEmpty ? nil : .object(object) }
        throw NetworkError(
            .unsupported,
            message: "the setting \(lost.name) cannot be kept in an outbox; set it in the row of the table or the "
                + "manager, which count when the request is sent")
    }

    /// The settings from the JSON that ``kept()`` made.
    package init(kept: JSONValue?) {
        self.init()
        guard let object = kept?.object else { return }
        for setting in Kept.all {
            if let value = object[setting.name] { setting.read(&self[dynamicMember: \.self], value) }
        }
        if let values = object["userInfo"]?.object { self.userInfo = values }
    }
}

extension HTTPHeaders {
    /// The fields in their order: name and value, or a name alone for one that is removed.
    package func kept() -> JSONValue? {
        hasNoFields ? nil : .array(fields.map { .array([.string($0.name)] + ($0.value.map { [.string($0)] } ?? [])) })
    }

    package init(kept: JSONValue?) {
        self.init(
            (kept?.array ?? []).compactMap { line in
                line[0]?.string.map { Field(name: $0, value: line[1]?.string) }
            })
    }
}

extension EncodedMembers {
    /// The members as JSON: name, value, and 1 for a name that stays as it is.
    package func kept() -> JSONValue? {
        isEmpty && !leavesOutNil
            ? nil : .array(list.map { .array([.string($0.name), $0.value] + ($0.keepsName ? [1] : [])) })
    }

    /// The members from the JSON of ``kept()``. The coding of the call changes only their names, as ``settled(by:)`` says.
    package init(kept: JSONValue?) {
        let list = (kept?.array ?? []).compactMap { member -> Member? in
            guard let name = member[0]?.string, let value = member[1] else { return nil }
            return Member(name: name, value: value, keepsName: member[2] != nil)
        }
        self.init(list, Self.unchanged(list))
        leavesOutNil = kept?.array?.isEmpty == true
    }

    static func unchanged(_ list: [Member]) -> [DeferredCoding.Note] {
        list.map { .init(path: [DeferredCoding.Step(JSONKey(stringValue: $0.name))], content: .json) }
    }
}
