// SPDX-License-Identifier: Apache-2.0
import { defineConfig } from 'vite';

// What makes the table of a language has no effect but its result: dialects that nobody asks for are left out.
const tables = {
  name: 'tables-are-pure',
  transform: (code, id) => (/legacy-modes\/mode\/\w+\.js$/.test(id) ? { code: code.replace(/(?<=[=:,(]\s*)(?=(?:clike|sql|set|words|mkCSS|mkXML|mkJavaScript|mkPython)\()/g, '/*@__PURE__*/ '), map: null } : null),
};

export default defineConfig({
  plugins: [tables],
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // data: addresses of styles and scripts are not ours
    chunkSizeWarningLimit: 800,
    rollupOptions: { output: { entryFileNames: 'assets/[name]-[hash].js', chunkFileNames: 'assets/[name]-[hash].js', assetFileNames: 'assets/[name]-[hash][extname]' } },
  },
  server: { proxy: { '/api': 'http://127.0.0.1:8090', '/console': 'http://127.0.0.1:8090' } },
});
