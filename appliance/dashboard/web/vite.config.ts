import preact from "@preact/preset-vite";
import { defineConfig } from "vite";

// File names carry no hash: the built files are committed, and a diff should show what changed.
// The server sends an ETag with each, so a new version is fetched at once.
export default defineConfig({
  plugins: [preact()],
  base: "/assets/",
  build: {
    outDir: "../static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: {
        entryFileNames: "dashboard.js",
        chunkFileNames: "[name].js",
        assetFileNames: "[name][extname]",
      },
    },
  },
});
