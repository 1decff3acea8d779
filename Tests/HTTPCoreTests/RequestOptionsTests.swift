import Testing

@testable import HTTPCore

@Suite struct RequestOptionsTests {
    @Test func copyDoesNotChangeWithTheOriginal() {
        var request = HTTPRequest("GET", "http://127.0.0.1/")
        request.timeout = .seconds(1)
        var copy = request
        copy.timeout = .seconds(2)
        copy.options.tag = "copy"
        #expect(request.timeout == .seconds(1) && request.tag == nil)
        #expect(copy.timeout == .seconds(2) && copy.tag == "copy")
        #expect(request != copy)
        copy.tag = nil
        copy.timeout = .seconds(1)
        #expect(request == copy && request.hashValue == copy.hashValue)
        #expect(HTTPRequest("GET", "/").hasNoSettings && !request.hasNoSettings)
    }

    @Test func narrowerLevelWinsWhereItIsSet() {
        var broad = RequestOptions(timeout: .seconds(1), headers: ["A": "1", "B": "1"], retries: 3)
        broad.isBarrier = true
        broad.tls.caFile = "/ca.pem"
        broad.redirects = .follow(limit: 2)
        var narrow = RequestOptions(headers: ["B": "2", "C": nil])
        narrow.isBarrier = false
        narrow.tls.minimumVersion = .v1_3
        let merged = narrow.over(broad)
        #expect(merged.timeout == .seconds(1) && merged.retries == 3 && merged.redirects == .follow(limit: 2))
        #expect(merged.isBarrier == false, "a call takes back what its entity has set")
        #expect(merged.tls == HTTPRequest.TLS(caFile: "/ca.pem", minimumVersion: .v1_3))
        #expect(merged.headers == ["A": "1", "B": "2", "C": nil])
        #expect(RequestOptions().over(broad).isSame(as: broad) && narrow.over(RequestOptions()).isSame(as: narrow))
    }

    @Test func numberOfRetriesIsThatOfThePolicyUntilItIsSet() {
        var options = RequestOptions()
        options.retries = 1
        options.retryPolicy = RetryPolicy(retries: 4)
        #expect(options.retries == 4)
        options.retries = 2
        #expect(options.retries == 2 && options.retryPolicy?.retries == 4)
        var narrow = RequestOptions()
        narrow.retries = 7
        #expect(narrow.over(options).retries == 7 && narrow.over(options).retryPolicy == options.retryPolicy)
        narrow.retryPolicy = RetryPolicy()
        #expect(narrow.over(options).retries == 0)
    }

    @Test func fieldsOfTheOptionsGiveWayToThoseOfTheRequest() {
        var request = HTTPRequest("GET", "/", headers: ["A": "own"])
        request.options.headers = ["A": "options", "B": "options"]
        request.takeHeadersOfOptions()
        #expect(request.headers["A"] == "own" && request.headers["B"] == "options")
        #expect(!request.options.headers.isSet)
    }

    @Test func onlyTheSettingsOfARoleAreKept() {
        var options = RequestOptions(timeout: .seconds(1), priority: .high)
        options.tag = "t"
        let kept = options.only(.response)
        #expect(kept.timeout == .seconds(1) && kept.priority == nil && kept.tag == nil)
    }
}
