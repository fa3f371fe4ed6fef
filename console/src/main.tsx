import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import '@mantine/spotlight/styles.css';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { App } from './app.tsx';
import { startSession } from './session/start.ts';
import { styleNonce } from './shared/style-nonce.ts';

const element = document.getElementById('root');
if (element === null) throw new Error('index.html has no element #root');
// Read by the library that keeps the page from scrolling under a dialog, for the style that it makes.
Object.assign(globalThis, { __webpack_nonce__: styleNonce() });
createRoot(element).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
void startSession();
