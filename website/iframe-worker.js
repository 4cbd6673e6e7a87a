// Search in pages that were opened from disk, where browsers allow no worker: a hidden frame does its work.
// The theme's search asks for the name IFrameWorker.
"use strict";

class IFrameWorker extends EventTarget {
  /** @param {string | URL} url of the worker's script */
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.inside = frame.contentWindow;
    this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.inside.importScripts = (...urls) => urls.reduce(
      (before, one) => before.then(() => this.load(one)), Promise.resolve());
    this.ready = this.load(String(url));
  }

  /**
   * Run a script in the frame.
   * @param {string} url
   * @returns {Promise<void>}
   */
  load(url) {
    return new Promise((resolve, reject) => {
      const page = this.inside.document, script = page.createElement("script");
      script.addEventListener("load", () => resolve());
      script.addEventListener("error", () => reject(new Error(`${url} did not load`)));
      script.src = url;
      page.body.append(script);
    });
  }

  /** @param {any} data */
  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
  }
}

if (location.protocol === "file:") Object.assign(window, { IFrameWorker, Worker: IFrameWorker });
