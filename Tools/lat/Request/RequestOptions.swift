// The options of `lat request`, and its help.
extension RequestCommand {
    static let name = "request"
    static let summary = "Sends one request and shows the response."
    static let usage = "[METHOD] URL [ITEM…] [options]"

    static let parameter = Option(
        "--parameter", "-p", value: "K=V", repeats: true,
        help: "A parameter: k=v for text, k:=json for numbers, Booleans, lists, objects and null. With --form or "
            + "files it is a field of the form. Otherwise it goes into the query of GET, HEAD and DELETE, and of a request "
            + "that has a body; else into a JSON body.")
    static let header = Option(
        "--header", "-H", value: "'K: V'", repeats: true,
        help: "A header field. 'K:' omits a default one, 'K;' sends it empty.")
    static let json = Option(
        "--json", value: "JSON|FILE|-",
        help: "A JSON body: a text that begins with { or [, a file, or - for standard input.")
    static let data = Option(
        "--data", "-d", value: "TEXT|@FILE", help: "A body sent unchanged: a text, a file, or standard input with @-.")
    static let form = Option("--form", "-f", help: "Sends items and parameters as a form instead of JSON.")
    static let file = Option(
        "--file", "-F", value: "NAME=PATH", repeats: true,
        help: "Uploads a file as multipart/form-data, with the parameters as fields.")
    static let timeout = Option(
        "--timeout", "-m", value: "TIME",
        help: "The time limit of the whole request: 500ms, 1s. Default: none while bytes move.")
    static let connectTimeout = Option(
        "--connect-timeout", value: "TIME", help: "The time limit of connecting. Default: 10s.")
    static let idleTimeout = Option("--idle-timeout", value: "TIME", help: "The longest wait for a byte. Default: 60s.")
    static let retry = Option(
        "--retry", value: "N",
        help: "Repeats idempotent requests, such as GET, PUT and DELETE, up to N times after a network failure, 408, "
            + "429, 500 and 502 to 504. Default: 0.")
    static let proxy = Option(
        "--proxy", "-x", value: "URL",
        help:
            "Uses a proxy: http, https, socks4, socks5 or socks5h; \"\" for none. Default: that of http_proxy and "
            + "the related variables.")
    static let noFollow = Option("--no-follow", help: "Shows a redirect instead of following it.")
    static let maxRedirects = Option(
        "--max-redirects", value: "N", help: "The largest number of redirects to follow. Default: 20.")
    static let include = Option(
        "--include", "-i", help: "Shows the head of the response before the body. HEAD shows it without this option.")
    static let verbose = Option(
        "--verbose", "-v",
        help:
            "Shows on standard error each head as it was sent, the server's certificate, the head of the response and "
            + "timings. Secrets are hidden.")
    static let user = Option("--user", "-u", value: "USER:PASSWORD", help: "Credentials for Basic authentication.")
    static let digest = Option("--digest", help: "Uses Digest authentication for --user instead of Basic.")
    static let bearer = Option("--bearer", value: "TOKEN", help: "Sends a bearer token in the field Authorization.")
    static let cookies = Option(
        "--cookies", "-b", value: "FILE",
        help: "Sends the cookies of a file in Netscape's format, and keeps those of the response in it.")
    static let http2 = Option("--http2", help: "Uses HTTP/2 without TLS too. With TLS, both sides choose it.")
    static let http3 = Option("--http3", help: "Tries HTTP/3, with HTTP/2 beside it. Needs a libcurl with HTTP/3.")
    static let http3Only = Option("--http3-only", help: "Uses only HTTP/3.")
    static let unixSocket = Option("--unix-socket", value: "PATH", help: "Connects to a Unix domain socket.")
    static let cache = Option(
        "--cache", value: "POLICY",
        help:
            "The policy for the cache in $XDG_CACHE_HOME/lat: http, cacheElseNetwork:TIME, networkElseCache, cacheOnly, "
            + "writeOnly or networkOnly. Default: networkOnly.")
    static let dictionaries = Option(
        "--dictionaries",
        help:
            "Offers responses in the cache as compression dictionaries for others (RFC 9842), where their servers say so. "
            + "With --cache http.")
    static let download = Option(
        "--download", "-O",
        help: "Saves the body in a file that the server or the URL names, or in that of -o. The same command resumes "
            + "it after it was interrupted.")
    static let curl = Option("--curl", help: "Prints the curl command that sends the same request, and sends nothing.")
    static let har = Option(
        "--har", value: "FILE",
        help:
            "Writes the request, its repetitions and redirects into a HAR file, which browsers open. Secrets are hidden."
    )
    static let noPager = Option("--no-pager", help: "Shows a long response without a pager.")

    static let options =
        [
            parameter, header, json, data, form, file, OutputArgument.option, download, include, verbose, curl, har,
            noPager,
            PageArguments.allPages, PageArguments.pages, PageArguments.maxPages,
            user, digest, bearer, cookies, timeout, connectTimeout, idleTimeout, retry, noFollow, maxRedirects, proxy,
            http2, http3, http3Only, unixSocket, cache, dictionaries,
        ] + ConnectionArguments.options + [OutputFormat.option]

    static let details = """
        The word request may be left out: lat URL, lat POST URL. Without METHOD it is
        GET, or POST with a body. Without http:// or https:// the URL gets http://, and
        https:// for port 443. :8080/x is http://localhost:8080/x.

        ITEM is one of these. The value may be in a file: name=@FILE, name:=@FILE,
        name==@FILE, Name:@FILE. A backslash before : ; = @ makes it an ordinary
        character.

          name=text    a member of a JSON body
          name:=json   a member that is not text
          name[sub]=x  a member within another
          name==text   a parameter of the query
          Name:value   a header field
          name@FILE    an uploaded file
          @FILE        the whole body; @- is standard input
          {…} or […]   the whole body as JSON

        Examples
          lat :8080/search q==swift page==2
          lat POST :8080/orders name=Ada age:=36 X-Trace:1
          lat :8080/orders '{"name": "Ada"}' -i
          lat :8080/photos img@a.png title=Holiday
          lat :8080/orders --all-pages
          lat request GET http://127.0.0.1:8080/big.iso -o big.iso --timeout 10m

        On a terminal, JSON is formatted and coloured, and a pager ($PAGER, or less)
        shows what is longer than the screen. Elsewhere the body is written as it came.

        Exit codes: 0 success, 1 the status is not a success (the body is still shown),
        2 the command line is invalid, 3 no response, 130 interrupted.
        """
}
