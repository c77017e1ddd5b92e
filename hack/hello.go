// A web server that says who asked: through a proxy, that is the proxy.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: hello ADDRESS:PORT")
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintf(w, "Hello. Your request reached me from %s.\n", host)
	})
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
