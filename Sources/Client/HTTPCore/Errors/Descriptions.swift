// The descriptions of requests, responses and credentials in `print`, `dump`, a debugger and a log. They show no body, no
// user information or query of their URL, and only the names of secret fields.

extension HTTPHeaders: CustomDebugStringConvertible, CustomReflectable {
    /// One line for each field, separated by `\n`. The values of ``Secrets/standard`` are not shown.
    public var description: String { description(hiding: .standard) }

    /// The same as ``description``.
    public var debugDescription: String { description }

    /// One line for each field, separated by `\n`. The values of secret fields are not shown.
    public func description(hiding secrets: Secrets) -> String {
        map { "\($0.name): \(URLText.visible(secrets.described($0.value, of: $0.name)))" }.joined(separator: "\n")
    }

    /// Names and values. The values of ``Secrets/standard`` are not shown.
    public var customMirror: Mirror {
        let secrets = Secrets.standard
        let children: [Mirror.Child] = map { ($0.name, secrets.described($0.value, of: $0.name) as Any) }
        return Mirror(self, children: children)
    }

    fileprivate var names: String {
        let names = map { $0.name }
        return names.isEmpty ? "" : "fields " + names.joined(separator: ", ")
    }
}

extension HTTPRequest: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The method, the address without query and user information, the names of the fields, whether there is a body, and
    /// the authentication scheme.
    public var description: String {
        var facts = [headers.names]
        if body != nil { facts.append("a body" + (body?.contentType.map { " of \($0)" } ?? "")) }
        if let authentication = self.authentication { facts.append("\(authentication)") }
        let known = facts.filter { !$0.isEmpty }.joined(separator: "; ")
        return URLText.visible("\(method) \(URLParts.redacted(url))") + (known.isEmpty ? "" : " (\(known))")
    }

    /// The same as ``description``.
    public var debugDescription: String { description }

    /// Method, address and fields, with secrets hidden as in ``description``.
    public var customMirror: Mirror {
        Mirror(self, children: ["method": method, "url": URLParts.redacted(url), "headers": headers])
    }
}

extension HTTPResponse: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The status, the address without query and user information, the names of the fields, and the size of the body.
    public var description: String {
        var facts = [headers.names]
        if let data = body.data { facts.append("\(data.count) bytes") }
        if source != .network { facts.append(source.rawValue) }
        let known = facts.filter { !$0.isEmpty }.joined(separator: "; ")
        let line = "\(status)\(reason.isEmpty ? "" : " " + reason) from \(URLParts.redacted(url))"
        return URLText.visible(line) + (known.isEmpty ? "" : " (\(known))")
    }

    /// The same as ``description``.
    public var debugDescription: String { description }

    /// The parts of the response, with secrets hidden as in ``description``.
    public var customMirror: Mirror {
        Mirror(
            self,
            children: [
                "status": status, "url": URLParts.redacted(url), "headers": headers, "source": source,
                "redirects": redirects, "byteCount": body.data?.count as Any,
            ])
    }
}

extension HTTPResponse.Redirect: CustomStringConvertible, CustomReflectable {
    /// The status, and the address without query and user information.
    public var description: String { "\(status) from \(URLText.visible(URLParts.redacted(url)))" }

    /// Address and status, with secrets hidden as in ``description``.
    public var customMirror: Mirror {
        Mirror(self, children: ["url": URLParts.redacted(url), "status": status])
    }
}

extension Authentication: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The authentication scheme.
    public var description: String {
        switch self {
        case .basic: "Basic"
        case .digest: "Digest"
        case .bearer: "Bearer"
        case .any: "any scheme"
        }
    }

    /// The same as ``description``.
    public var debugDescription: String { description }

    /// A mirror without children, which hides the credentials.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

extension ProxyPolicy: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The address of the proxy, without user and password.
    public var description: String {
        switch self {
        case .environment: "the environment's"
        case .direct: "none"
        case .url(let url): Self.redacted(url)
        }
    }

    /// The same as ``description``.
    public var debugDescription: String { description }

    /// A mirror without children, which hides the credentials.
    public var customMirror: Mirror { Mirror(self, children: [:]) }

    private static func redacted(_ url: String) -> String {
        // A proxy may be written without a scheme: `user:password@host:port`.
        URLParts(url).isAbsolute ? URLParts.redacted(url) : String(URLParts.redacted("http://" + url).dropFirst(7))
    }
}

extension NetworkError: CustomReflectable {
    /// The parts of the error, with secrets hidden.
    public var customMirror: Mirror {
        Mirror(
            self,
            children: [
                "kind": kind, "message": message, "request": request as Any,
                "url": url.map(URLParts.redacted) as Any, "response": response as Any, "attempts": attempts,
                "curlCode": curlCode as Any,
                "underlying": underlying.map { Secrets.standard.shown("\($0)", of: "") } as Any,
            ])
    }
}
