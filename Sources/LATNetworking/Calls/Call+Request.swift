import HTTPCore

extension Call {
    /// Whether all that is sent can be sent again.
    var isReplayable: Bool {
        request.body?.isReplayable ?? true && details.content?.body?.isReplayable ?? true
            && details.content?.files.allSatisfy(\.isReplayable) ?? true
    }

    /// The address of a base or mirror, with the call's own parameters.
    func url(atAddress index: Int) throws(NetworkError) -> String {
        guard index > 0 else { return request.url }
        guard let content = details.content else { return details.addresses[index] }
        var elsewhere = request
        elsewhere.url = details.addresses[index]
        try RequestBuilder.put(content, into: &elsewhere)
        return elsewhere.url
    }
}
