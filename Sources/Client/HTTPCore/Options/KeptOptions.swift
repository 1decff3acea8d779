internal import FoundationEssentials

// What an outbox keeps of a call, as JSON. Hooks, credentials and the identity of objects cannot be kept.

/// How a setting is kept as JSON, and read again.
struct KeptForm<Value>: Sendable {
    let write: @Sendable (Value) -> JSONValue?
    let read: @Sendable (JSONValue) -> Value
}

extension KeptForm where Value == Duration? {
    static var time: Self {
        Self(write: { $0.map { .double($0 / .milliseconds(1)) } }, read: { $0.double.map { .milliseconds($0) } })
    }
}

extension KeptForm where Value == Bool? {
    static var flag: Self { Self(write: { $0.map { .bool($0) } }, read: { $0.bool }) }
}

extension KeptForm where Value == Int64? {
    static var number: Self { Self(write: { $0.map { .int($0) } }, read: { $0.int64 }) }
}

extension KeptForm where Value == Int? {
    static var count: Self { Self(write: { $0.map { .int(Int64($0)) } }, read: { $0.int }) }
}

extension KeptForm where Value == String? {
    static var text: Self { Self(write: { $0.map { .string($0) } }, read: { $0.string }) }
}

extension KeptForm where Value == RequestPriority? {
    static var priority: Self {
        Self(write: { $0.map { .int(Int64($0.rawValue)) } }, read: { $0.int.flatMap(RequestPriority.init) })
    }
}

extension KeptForm where Value == ParameterEncoding? {
    static var encoding: Self {
        Self(write: { $0.map { .string($0.rawValue) } }, read: { $0.string.flatMap(ParameterEncoding.init) })
    }
}

extension KeptForm where Value == RequestOptions.Addresses? {
    static var addresses: Self {
        Self(write: { $0.map { .string($0.rawValue) } }, read: { $0.string.flatMap(RequestOptions.Addresses.init) })
    }
}

extension KeptForm where Value == ContentCoding? {
    /// The manager looks a coding of the app's own up by its name.
    static var coding: Self {
        Self(write: { $0.map { .string($0.name) } }, read: { $0.string.map { ContentCoding($0) } })
    }
}

extension KeptForm where Value == Set<Int>? {
    static var statuses: Self {
        Self(
            write: { $0.map { .array($0.sorted().map { .int(Int64($0)) }) } },
            read: { $0.array.map { Set($0.compactMap(\.int)) } })
    }
}

extension KeptForm where Value: Equatable & Sendable {
    /// A choice that is automatic, off or a name.
    private static func choice(
        _ automatic: Value, off: Value, _ name: @escaping @Sendable (Value) -> String?,
        _ named: @escaping @Sendable (String) -> Value
    ) -> Self {
        Self(
            write: { $0 == automatic ? nil : $0 == off ? false : name($0).map(JSONValue.string) },
            read: { $0.string.map(named) ?? ($0.bool == false ? off : automatic) })
    }
}

extension KeptForm<RequestOptions.AuthenticatorChoice> {
    static var authenticator: Self {
        choice(.automatic, off: .off, { if case .named(let name) = $0 { name } else { nil } }, { .named($0) })
    }
}

extension KeptForm<RequestOptions.SignerChoice> {
    static var signer: Self {
        choice(.automatic, off: .off, { if case .named(let name) = $0 { name } else { nil } }, { .named($0) })
    }
}

extension KeptForm<RequestOptions.Sealing> {
    static var sealing: Self {
        choice(
            .automatic, off: .unsealed, { if case .sealed(let name) = $0 { name } else { nil } }, { .sealed(by: $0) })
    }
}

extension KeptForm<RequestOptions.Digests> {
    static var digests: Self {
        Self(
            write: { digests in
                var object: [String: JSONValue] = [:]
                object["checks"] = digests.checks.map { .bool($0) }
                object["sends"] = digests.sends.map { .string($0.rawValue) }
                object["wants"] = digests.wants.map { .string($0.rawValue) }
                return object.isEmpty ? nil : .object(object)
            },
            read: { kept in
                let name = RequestOptions.Digests.Algorithm.init(rawValue:)
                return RequestOptions.Digests(
                    checks: kept["checks"]?.bool, sends: kept["sends"]?.string.flatMap(name),
                    wants: kept["wants"]?.string.flatMap(name))
            })
    }
}

extension RequestOptions {
    /// The settings as JSON; see ``init(kept:)``.
    ///
    /// - Throws: ``NetworkError/Kind/unsupported`` for a setting that cannot be kept.
    package func kept() throws(NetworkError) -> JSONValue? {
        guard !isStandard else { return nil }
        var object: [String: JSONValue] = [:]
        for key in OptionKey.all { object[key.name] = key.keeping?.write(storage.values) }
        if !self.userInfo.isEmpty { object["userInfo"] = .object(self.userInfo) }
        let lost = OptionKey.all.first { key in
            key.isSet(in: self) && object[key.name] == nil && !key.roles.contains(.immediate)
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
        for key in OptionKey.all {
            if let value = object[key.name] { key.keeping?.read(&self[dynamicMember: \.self], value) }
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
