import { accessSync, constants } from "node:fs";
import path from "node:path";

/** An executable Chromium on the PATH. */
export const CHROMIUM: string | undefined = ["chromium", "chromium-browser", "google-chrome"]
  .flatMap((name) => (process.env["PATH"] ?? "").split(path.delimiter).map((folder) => path.join(folder, name)))
  .find((file) => {
    try {
      accessSync(file, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
