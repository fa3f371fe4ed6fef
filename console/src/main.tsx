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
// Nonce for the style element of the library that blocks scrolling under a dialog.
Object.assign(globalThis, { __webpack_nonce__: styleNonce() });
createRoot(element).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
void startSession();
