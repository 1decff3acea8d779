internal import LATNetworking

// The second pass of redaction: values that were secret in one place are removed everywhere.
extension CallRecord {
    mutating func scrub(_ redactor: Redactor) {
        request.scrub(redactor)
        tag = tag.map(redactor.scrubbed)
        for attempt in attempts.indices {
            for hop in attempts[attempt].hops.indices { attempts[attempt].hops[hop].scrub(redactor) }
        }
        for index in messages.indices { messages[index].text = redactor.scrubbed(messages[index].text) }
        for index in cache.indices { cache[index].reason = cache[index].reason.map(redactor.scrubbed) }
        switch outcome {
        case .response(var response):
            response.scrub(redactor)
            outcome = .response(response)
        case .failure(var failure):
            failure.scrub(redactor)
            outcome = .failure(failure)
        case nil: break
        }
    }
}

extension CallRecord.Exchange {
    fileprivate mutating func scrub(_ redactor: Redactor) {
        request.scrub(redactor)
        response?.scrub(redactor)
        failure?.scrub(redactor)
    }
}

extension CallRecord.Request {
    fileprivate mutating func scrub(_ redactor: Redactor) {
        url = redactor.scrubbed(url)
        for index in headers.indices { headers[index].scrub(redactor) }
        body?.scrub(redactor)
    }
}

extension CallRecord.Response {
    fileprivate mutating func scrub(_ redactor: Redactor) {
        url = redactor.scrubbed(url)
        reason = redactor.scrubbed(reason)
        for index in headers.indices { headers[index].scrub(redactor) }
        for index in trailers.indices { trailers[index].scrub(redactor) }
        body?.scrub(redactor)
    }
}

extension CallRecord.Failure {
    fileprivate mutating func scrub(_ redactor: Redactor) {
        kind = redactor.scrubbed(kind)
        message = redactor.scrubbed(message)
        response?.scrub(redactor)
    }
}

extension CallRecord.Field {
    fileprivate mutating func scrub(_ redactor: Redactor) { value = redactor.scrubbed(value) }
}

extension CallRecord.Body {
    fileprivate mutating func scrub(_ redactor: Redactor) {
        switch content {
        case .text(let text): content = .text(redactor.scrubbed(text))
        case .bytes(let bytes): content = .bytes(redactor.scrubbed(bytes))
        case .parts(let parts):
            content = .parts(
                parts.map { part in
                    var part = part
                    part.name = redactor.scrubbed(part.name)
                    part.fileName = part.fileName.map(redactor.scrubbed)
                    part.text = part.text.map(redactor.scrubbed)
                    return part
                })
        case .omitted(let reason): content = .omitted(redactor.scrubbed(reason))
        }
    }
}
