import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** The gateway serves `dist` at `/console/`. With `vite`, calls go to a gateway on its default port. */
export default defineConfig({
  base: '/console/',
  plugins: [react()],
  server: { proxy: { '^/(api|cdp|console/session)': 'http://127.0.0.1:8080' } },
  build: { target: 'es2022', chunkSizeWarningLimit: 800 },
});
