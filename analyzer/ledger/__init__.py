"""Where each GPU-second went: windows are counted, classified by cause, priced and booked."""
