// @ts-check
// The view of health: the server now, its upstream servers, and its calls over time.

import { get, isAborted } from "../api.js";
import { h, replace } from "../dom.js";
import { ActivityPanel, WINDOWS } from "../health/activity.js";
import { MachinePanel } from "../health/machine.js";
import { ServersPanel } from "../health/servers.js";
import { Tiles } from "../health/tiles.js";
import { listen } from "../live.js";
import { showError } from "../parts.js";
import { setQuery } from "../router.js";

/** @typedef {import("../health/types.js").HealthReport} HealthReport */

const REFRESH_MS = 3000;
/** While the journal is read, more is shown this often. */
const READING_MS = 700;

/** @type {import("../main.js").View} */
export default {
  mount(root, place) {
    const gone = new AbortController();
    const asked = place.query.get("window");
    let name = WINDOWS.some(([known]) => known === asked) ? String(asked) : "1h";
    let revision = -1;
    let isLoading = false;
    let loadedAt = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let again;
    const problem = h("div", { class: "health-problem" });
    const tiles = new Tiles();
    const servers = new ServersPanel((report) => show(report));
    const machine = new MachinePanel();
    const activity = new ActivityPanel(name, (chosen) => {
      name = chosen;
      setQuery({ window: chosen === "1h" ? null : chosen });
      void loadActivity();
    });

    /** @param {HealthReport} report */
    function show(report) {
      replace(problem);
      tiles.showReport(report);
      servers.show(report);
      machine.show(report);
    }

    async function loadReport() {
      try {
        show(await get("/health", {}, gone.signal));
      } catch (error) {
        if (!isAborted(error)) replace(problem, showError(error));
      }
    }

    async function loadActivity() {
      const wanted = name;
      isLoading = true;
      try {
        const found = await get("/health/activity", { window: wanted }, gone.signal);
        if (wanted !== name) return;
        revision = found.revision;
        loadedAt = Date.now();
        activity.show(found);
        tiles.showActivity(found);
        if (!found.progress.is_complete && !gone.signal.aborted) {
          clearTimeout(again);
          again = setTimeout(() => void loadActivity(), READING_MS);
        }
      } catch (error) {
        if (!isAborted(error)) activity.showProblem(error);
      } finally {
        isLoading = false;
      }
    }

    root.append(
      h(
        "div",
        { class: "health" },
        h("h1", { class: "sr-only" }, "Health"),
        problem,
        tiles.element,
        h("div", { class: "health-columns" }, h("div", { class: "health-main" }, activity.element), h("div", { class: "health-side" }, servers.element, machine.element)),
      ),
    );
    void loadReport();
    void loadActivity();
    const end = listen("health", (/** @type {HealthReport & {revision: number, is_reading: boolean}} */ value) => {
      show(value);
      // Without new calls, the plots still move on with the time.
      const isDue = value.revision !== revision || value.is_reading || Date.now() - loadedAt > activity.getSlotMs();
      if (isDue && !isLoading && Date.now() - loadedAt >= REFRESH_MS - 500) void loadActivity();
    });
    return () => {
      end();
      gone.abort();
      clearTimeout(again);
      activity.close();
      servers.close();
    };
  },
};
